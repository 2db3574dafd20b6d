//! One request with its response, between the connection's task and the interpreter that answers.

use crate::file::FilePart;
use crate::local::when_served;
use crate::response::{Head, Piece, Reply, ResponseBody};
use crate::websocket::Socket;
use bytes::Bytes;
use hyper::StatusCode;
use hyper::header::CONTENT_LENGTH;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;
use tokio::sync::{Notify, mpsc, oneshot};

/// Pieces of a body that may wait for their reader, in each direction.
pub(crate) const WAITING: usize = 4;

/// A request under way. Python code knows its number.
pub(crate) struct Exchange {
    pub(crate) number: u64,
    body: Mutex<BodyState>,
    answer: Mutex<Answer>,
    /// Whether the client has asked for the head alone.
    is_head: bool,
    left: Left,
    /// A WebSocket that the client asks for, in place of a body and a response.
    socket: Option<Socket>,
    /// When the request's call is interrupted.
    deadline: Mutex<Option<Instant>>,
}

/// The pieces of a request's body, as they come.
pub(crate) type Pieces = mpsc::Receiver<Result<Bytes, BodyFault>>;

/// Why the rest of a request's body does not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFault {
    /// The client has gone, or sent something other than a body.
    Broken,
    /// It comes too slowly.
    Slow,
}

#[derive(Default)]
struct BodyState {
    /// `None` if the whole body is with the request.
    pieces: Option<Pieces>,
    /// Bytes that were received and not read.
    rest: Bytes,
    fault: Option<BodyFault>,
}

/// How far the response is.
enum Answer {
    Expected(oneshot::Sender<Reply>),
    Streaming { pieces: mpsc::Sender<Piece>, missing: Option<u64> },
    Ended,
}

/// Whether the client has gone, or has its whole response.
#[derive(Default)]
pub(crate) struct Left {
    is_so: AtomicBool,
    notify: Notify,
    /// Of the worker that has the request, until then.
    waits: Mutex<Option<Waiting>>,
}

/// A client that waits for a worker is counted until this is dropped.
struct Waiting(Arc<AtomicUsize>);

impl Waiting {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(count))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Left {
    pub(crate) fn note(&self) {
        self.is_so.store(true, Ordering::SeqCst);
        drop(self.waits.lock().take());
        self.notify.notify_waiters();
    }

    /// Has the client counted until it has left.
    fn count_in(&self, count: &Arc<AtomicUsize>) {
        *self.waits.lock() = Some(Waiting::new(count));
        if self.is_so.load(Ordering::SeqCst) {
            drop(self.waits.lock().take());
        }
    }

    async fn wait(&self) {
        let mut notified = std::pin::pin!(self.notify.notified());
        notified.as_mut().enable();
        if !self.is_so.load(Ordering::SeqCst) {
            notified.await;
        }
    }
}

/// The fate of a piece of a response.
pub(crate) enum Sent {
    /// It is on its way, and the client wants more.
    Taken,
    /// Nobody wants it: the client has gone, or has all that the head has announced.
    Unwanted,
    /// It waits for the client to read. The future says whether the client wants more.
    Waits(mpsc::Sender<Piece>, Piece),
}

impl Exchange {
    /// A request whose body comes in `pieces`, or is known whole, and where its response is expected.
    pub(crate) fn new(
        pieces: Option<Pieces>,
        is_head: bool,
    ) -> (Arc<Self>, oneshot::Receiver<Reply>) {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let (sender, receiver) = oneshot::channel();
        let exchange = Self {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            body: Mutex::new(BodyState { pieces, ..BodyState::default() }),
            answer: Mutex::new(Answer::Expected(sender)),
            is_head,
            left: Left::default(),
            socket: None,
            deadline: Mutex::new(None),
        };
        (Arc::new(exchange), receiver)
    }

    /// A request for a WebSocket. The application may reject it by a response of its own.
    pub(crate) fn of_socket(socket: Socket) -> (Arc<Self>, oneshot::Receiver<Reply>) {
        let (exchange, reply) = Self::new(None, false);
        let mut exchange = Arc::into_inner(exchange).expect("it was made just now");
        exchange.socket = Some(socket);
        (Arc::new(exchange), reply)
    }

    pub(crate) fn socket(&self) -> Option<&Socket> {
        self.socket.as_ref()
    }

    pub(crate) fn set_deadline(&self, deadline: Instant) {
        *self.deadline.lock() = Some(deadline);
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        *self.deadline.lock()
    }

    /// The client has gone, or has its response.
    pub(crate) fn note_left(&self) {
        self.left.note();
    }

    /// Waits until the client has gone, or has its response.
    pub(crate) async fn left(&self) {
        self.left.wait().await;
    }

    /// The next bytes of the body, at most so many; none at its end.
    pub(crate) async fn read(&self, most: usize) -> Result<Bytes, BodyFault> {
        poll_fn(|context| {
            let body = &mut *self.body.lock();
            if body.rest.is_empty() {
                if let Some(fault) = body.fault {
                    return std::task::Poll::Ready(Err(fault));
                }
                let Some(pieces) = &mut body.pieces else {
                    return std::task::Poll::Ready(Ok(Bytes::new()));
                };
                match std::task::ready!(pieces.poll_recv(context)) {
                    Some(Ok(piece)) => body.rest = piece,
                    Some(Err(fault)) => body.fault = Some(fault),
                    None => body.pieces = None,
                }
            }
            if let (true, Some(fault)) = (body.rest.is_empty(), body.fault) {
                return std::task::Poll::Ready(Err(fault));
            }
            let length = body.rest.len().min(most);
            std::task::Poll::Ready(Ok(body.rest.split_to(length)))
        })
        .await
    }

    /// Begins the response, of which this is the first piece. Returns whether the client wants more.
    ///
    /// # Errors
    ///
    /// Words for the application's author.
    pub(crate) fn reply(&self, head: Head, mut first: Bytes, more: bool) -> Result<bool, String> {
        let announced = head.announced_length()?;
        let mut answer = self.answer.lock();
        if !matches!(&*answer, Answer::Expected(_)) {
            return match &*answer {
                Answer::Streaming { .. } => Err("the response has begun already".to_owned()),
                _ => Ok(false),
            };
        }
        let has_body = !self.is_head && head.status.is_with_body();
        if has_body && let Some(length) = announced {
            if first.len() as u64 > length {
                first.truncate(length as usize);
            } else if !more && (first.len() as u64) < length {
                return Err(format!(
                    "the response has {} bytes, and its Content-Length announces {length}",
                    first.len()
                ));
            }
        }
        let Answer::Expected(sender) = std::mem::replace(&mut *answer, Answer::Ended) else {
            return Ok(false);
        };
        let missing = announced.map(|length| length - first.len().min(length as usize) as u64);
        if !has_body || !more || missing == Some(0) {
            let body = if has_body { first } else { Bytes::new() };
            // The client may have gone.
            when_served(move || drop(sender.send(Reply { head, body: ResponseBody::whole(body) })));
            return Ok(false);
        }
        let (pieces, receiver) = mpsc::channel(WAITING);
        let body = ResponseBody::pieces(first, receiver);
        let is_wanted = sender.send(Reply { head, body }).is_ok();
        if is_wanted {
            *answer = Answer::Streaming { pieces, missing };
        }
        Ok(is_wanted)
    }

    /// The whole response, whose body is a file: as much of it as its head announces.
    ///
    /// # Errors
    ///
    /// Words for the application's author.
    pub(crate) fn reply_file(&self, mut head: Head, mut file: FilePart) -> Result<(), String> {
        let has_body = head.status.is_with_body();
        match head.announced_length()? {
            Some(length) if has_body && file.length() < length => {
                return Err(format!(
                    "the file has {} bytes, and the response's Content-Length announces {length}",
                    file.length()
                ));
            }
            Some(length) => file.truncate(length),
            None if has_body => drop(head.headers.insert(CONTENT_LENGTH, file.length().into())),
            None => {}
        }
        let body = if has_body && !self.is_head {
            let first = file.read().map_err(|error| format!("the file cannot be read: {error}"))?;
            ResponseBody::file(first, file)
        } else {
            ResponseBody::whole(Bytes::new())
        };
        let mut answer = self.answer.lock();
        match std::mem::replace(&mut *answer, Answer::Ended) {
            // The client may have gone.
            Answer::Expected(sender) => drop(sender.send(Reply { head, body })),
            Answer::Ended => {}
            begun => {
                *answer = begun;
                return Err("the response has begun already".to_owned());
            }
        }
        Ok(())
    }

    /// The next piece of the response.
    pub(crate) fn send(&self, mut data: Bytes, is_last: bool) -> Sent {
        let mut answer = self.answer.lock();
        let Answer::Streaming { pieces, missing } = &mut *answer else { return Sent::Unwanted };
        let mut is_last = is_last;
        if let Some(missing) = missing {
            let length = (data.len() as u64).min(*missing);
            data.truncate(length as usize);
            *missing -= length;
            if is_last && *missing > 0 {
                // The client must not take it for whole: the connection ends without its last piece.
                tracing::error!(
                    "a response is {missing} bytes shorter than its Content-Length; its connection is closed"
                );
                *answer = Answer::Ended;
                return Sent::Unwanted;
            }
            is_last |= *missing == 0;
        }
        if data.is_empty() && !is_last {
            return Sent::Taken;
        }
        let sent = match pieces.try_send(Piece { data, is_last }) {
            Ok(()) if is_last => Sent::Unwanted,
            Ok(()) => Sent::Taken,
            Err(mpsc::error::TrySendError::Full(piece)) => Sent::Waits(pieces.clone(), piece),
            Err(mpsc::error::TrySendError::Closed(_)) => {
                *answer = Answer::Ended;
                return Sent::Unwanted;
            }
        };
        if is_last {
            *answer = Answer::Ended;
        }
        sent
    }

    /// Ends the request, which has failed: by a response with this status if none has begun, else by the end of its connection.
    pub(crate) fn fail(&self, status: StatusCode) {
        let answer = std::mem::replace(&mut *self.answer.lock(), Answer::Ended);
        if let Answer::Expected(sender) = answer {
            drop(sender.send(Reply::problem(status)));
        }
        if let Some(socket) = &self.socket {
            socket.end(true);
        }
        self.left.note();
    }

    /// Ends the response as far as it is.
    pub(crate) fn cut(&self) {
        *self.answer.lock() = Answer::Ended;
    }

    /// Whether it has a whole response, and no WebSocket.
    pub(crate) fn is_over(&self) -> bool {
        self.socket.is_none() && self.is_answered()
    }

    /// Whether its response is whole.
    pub(crate) fn is_answered(&self) -> bool {
        matches!(&*self.answer.lock(), Answer::Ended)
    }
}

impl Head {
    fn announced_length(&self) -> Result<Option<u64>, String> {
        let Some(value) = self.headers.get(CONTENT_LENGTH) else { return Ok(None) };
        let text = value.to_str().unwrap_or_default();
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let length = text.parse().ok().filter(|_| is_number);
        length.map(Some).ok_or_else(|| format!("the Content-Length {text:?} is not a number"))
    }
}

/// The requests under way in one worker, by their numbers, and whether they go on.
#[derive(Default)]
pub(crate) struct Exchanges {
    all: Mutex<HashMap<u64, Arc<Exchange>>>,
    /// Clients that wait for a response.
    waiting: Arc<AtomicUsize>,
    begun: AtomicU64,
    is_stuck: AtomicBool,
}

impl Exchanges {
    pub(crate) fn add(&self, exchange: &Arc<Exchange>) {
        self.all.lock().insert(exchange.number, Arc::clone(exchange));
        exchange.left.count_in(&self.waiting);
        self.begun.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn find(&self, number: u64) -> Option<Arc<Exchange>> {
        self.all.lock().get(&number).cloned()
    }

    pub(crate) fn remove(&self, number: u64) {
        let removed = self.all.lock().remove(&number);
        drop(removed);
    }

    /// Requests that have been added so far.
    pub(crate) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }

    pub(crate) fn count(&self) -> usize {
        self.all.lock().len()
    }

    /// Requests whose clients have no whole response yet. The others are WebSockets, and what applications do behind their responses.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    /// The worker does not go on. Returns whether that is new.
    pub(crate) fn give_up(&self) -> bool {
        !self.is_stuck.swap(true, Ordering::SeqCst)
    }

    pub(crate) fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::SeqCst)
    }

    /// Fails all, and forgets them.
    pub(crate) fn abandon(&self, status: StatusCode) {
        self.fail(status, |_| true);
        let abandoned = std::mem::take(&mut *self.all.lock());
        drop(abandoned);
    }

    /// Has the WebSockets close.
    pub(crate) fn leave(&self) {
        self.all.lock().values().filter_map(|exchange| exchange.socket()).for_each(Socket::leave);
    }

    /// Fails those that `chosen` chooses.
    pub(crate) fn fail(&self, status: StatusCode, chosen: impl Fn(&Exchange) -> bool) {
        let mut failed: Vec<_> = self.all.lock().values().cloned().collect();
        failed.retain(|exchange| chosen(exchange));
        failed.iter().for_each(|exchange| exchange.fail(status));
    }
}

/// Notes that the client has left when this is dropped.
pub(crate) struct LeftGuard(pub(crate) Arc<Exchange>);

impl Drop for LeftGuard {
    fn drop(&mut self) {
        self.0.note_left();
    }
}

/// Whether responses of a status have a body (RFC 9110, 6.4.1).
trait WithBody {
    fn is_with_body(&self) -> bool;
}

impl WithBody for StatusCode {
    fn is_with_body(&self) -> bool {
        !self.is_informational() && !matches!(self.as_u16(), 204 | 304)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: u16, fields: &str) -> Head {
        let count = if fields.is_empty() { 0 } else { fields.split('\n').count() / 2 };
        Head::parse(StatusCode::from_u16(status).unwrap(), fields.as_bytes(), count, false).unwrap()
    }

    fn begun(
        head: Head,
        first: &'static str,
        more: bool,
        is_head: bool,
    ) -> (Result<bool, String>, Option<Bytes>) {
        let (exchange, mut reply) = Exchange::new(None, is_head);
        let outcome = exchange.reply(head, Bytes::from_static(first.as_bytes()), more);
        (outcome, reply.try_recv().ok().and_then(|reply| reply.body.into_whole()))
    }

    #[test]
    fn a_response_has_the_length_that_it_announces() {
        let three = || head(200, "content-length\n3");
        assert_eq!(begun(three(), "abc", false, false), (Ok(false), Some("abc".into())));
        assert_eq!(begun(three(), "abcd", false, false), (Ok(false), Some("abc".into())));
        // It is whole already: nothing more is wanted.
        assert_eq!(begun(three(), "abc", true, false), (Ok(false), Some("abc".into())));
        assert_eq!(begun(three(), "a", true, false), (Ok(true), None));
        let (short, _) = begun(three(), "ab", false, false);
        assert!(short.unwrap_err().contains("has 2 bytes, and its Content-Length announces 3"));
        let (wrong, _) = begun(head(200, "content-length\n+3"), "", false, false);
        assert!(wrong.unwrap_err().contains("\"+3\" is not a number"));
    }

    #[test]
    fn heads_and_some_statuses_have_no_body() {
        assert_eq!(begun(head(200, ""), "abc", false, true), (Ok(false), Some(Bytes::new())));
        assert_eq!(begun(head(200, "content-length\n9"), "", false, true).0, Ok(false));
        for status in [204, 304] {
            assert_eq!(
                begun(head(status, ""), "abc", true, false),
                (Ok(false), Some(Bytes::new()))
            );
        }
    }

    #[test]
    fn pieces_wait_for_their_reader_and_end_with_the_last() {
        let (exchange, _reply) = Exchange::new(None, false);
        assert_eq!(exchange.reply(head(200, ""), Bytes::new(), true), Ok(true));
        for _ in 0..WAITING {
            assert!(matches!(exchange.send("a".into(), false), Sent::Taken));
        }
        assert!(matches!(exchange.send("a".into(), false), Sent::Waits(..)));
        assert!(!exchange.is_answered());
        exchange.fail(StatusCode::BAD_GATEWAY);
        assert!(exchange.is_answered());
        assert!(matches!(exchange.send("a".into(), false), Sent::Unwanted));
    }
}
