//! WebSockets (RFC 6455) of applications of ASGI: frames on one side, events on the other.
//!
//! Two tasks serve a socket: one takes the client's messages, at most so many ahead of the application, the other sends the
//! application's. Neither waits for the other, so a client and an application that both only send do not hold each other up.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Method, StatusCode, Version};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

/// Messages that wait for the application, or for the client.
const WAITING: usize = 16;

/// Bytes of the largest message, as with uvicorn.
const LARGEST: usize = 16 << 20;

/// How often the client is asked whether it is there. One that says nothing twice has gone.
const PING: Duration = Duration::from_secs(20);

/// How long a client may take to close its side.
const CLOSE: Duration = Duration::from_secs(5);

/// An event that the application hears.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    Text(String),
    Bytes(Bytes),
    Disconnect { code: u16, reason: String },
}

/// The application's decision about a client that asks for a socket.
pub(crate) enum Decision {
    Accept(HeaderMap),
    Reject(StatusCode),
}

/// A message of the application, or its close.
#[derive(Debug)]
pub(crate) enum Outgoing {
    Message(Message),
    Close { code: u16, reason: String },
}

/// The application's side of a socket.
pub(crate) struct Socket {
    decision: Mutex<Option<oneshot::Sender<Decision>>>,
    events: Mutex<mpsc::Receiver<Event>>,
    /// `None` when the application has closed.
    outgoing: Mutex<Option<mpsc::Sender<Outgoing>>>,
    ends: Arc<Ends>,
}

/// Whether the worker leaves.
#[derive(Default)]
struct Ends {
    is_so: AtomicBool,
    notify: Notify,
}

impl Ends {
    async fn wait(&self) {
        let mut notified = std::pin::pin!(self.notify.notified());
        notified.as_mut().enable();
        if !self.is_so.load(Ordering::SeqCst) {
            notified.await;
        }
    }
}

/// The connection's side of a socket.
pub(crate) struct Connection {
    pub(crate) decision: oneshot::Receiver<Decision>,
    events: mpsc::Sender<Event>,
    outgoing: mpsc::Receiver<Outgoing>,
    ends: Arc<Ends>,
}

/// A socket that a client asks for.
pub(crate) fn pair() -> (Socket, Connection) {
    let (decides, decision) = oneshot::channel();
    let (tells, events) = mpsc::channel(WAITING);
    let (sends, outgoing) = mpsc::channel(WAITING);
    let ends = Arc::<Ends>::default();
    let socket = Socket {
        decision: Mutex::new(Some(decides)),
        events: Mutex::new(events),
        outgoing: Mutex::new(Some(sends)),
        ends: Arc::clone(&ends),
    };
    (socket, Connection { decision, events: tells, outgoing, ends })
}

impl Socket {
    /// Accepts or rejects. False if that has happened already, or the client has gone.
    pub(crate) fn decide(&self, decision: Decision) -> bool {
        let decides = self.decision.lock().take();
        decides.is_some_and(|decides| decides.send(decision).is_ok())
    }

    /// The next event; after the last one that the client has gone.
    pub(crate) async fn event(&self) -> Event {
        let event = poll_fn(|context| self.events.lock().poll_recv(context)).await;
        event.unwrap_or(Event::Disconnect { code: 1006, reason: String::new() })
    }

    /// Sends, if there is room. Gives the message back with where it waits for some, or nothing if nobody wants it.
    pub(crate) fn send(
        &self,
        outgoing: Outgoing,
    ) -> Result<(), Option<(mpsc::Sender<Outgoing>, Outgoing)>> {
        let mut open = self.outgoing.lock();
        let sender = open.as_ref().ok_or(None)?.clone();
        if matches!(outgoing, Outgoing::Close { .. }) {
            *open = None;
        }
        sender.try_send(outgoing).map_err(|error| match error {
            mpsc::error::TrySendError::Full(outgoing) => Some((sender, outgoing)),
            mpsc::error::TrySendError::Closed(_) => None,
        })
    }

    /// The application has ended, and perhaps failed. One that ends without a decision has failed, too.
    pub(crate) fn end(&self, has_failed: bool) {
        self.decide(Decision::Reject(StatusCode::INTERNAL_SERVER_ERROR));
        let code = if has_failed { 1011 } else { 1000 };
        // Where there is no room for it, the end of the messages closes the socket.
        drop(self.send(Outgoing::Close { code, reason: String::new() }));
    }

    /// The worker leaves: the client may ask for another socket, and the application is told.
    pub(crate) fn leave(&self) {
        self.ends.is_so.store(true, Ordering::SeqCst);
        self.ends.notify.notify_waiters();
    }
}

/// Whether a request asks for a socket (RFC 6455, 4.2.1). Its key, if it is right.
pub(crate) fn asked(parts: &Parts) -> Option<Result<String, StatusCode>> {
    let has = |name, word: &str| {
        let values = parts.headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        values.flat_map(|value| value.split(',')).any(|part| part.trim().eq_ignore_ascii_case(word))
    };
    let is_upgrade = parts.version == Version::HTTP_11
        && parts.method == Method::GET
        && has(header::CONNECTION, "upgrade")
        && has(header::UPGRADE, "websocket");
    if !is_upgrade {
        return None;
    }
    if parts.headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != "13") {
        return Some(Err(StatusCode::UPGRADE_REQUIRED));
    }
    let key = parts.headers.get(header::SEC_WEBSOCKET_KEY).and_then(|key| key.to_str().ok());
    let right = key.filter(|key| STANDARD.decode(key).is_ok_and(|key| key.len() == 16));
    Some(right.map(str::to_owned).ok_or(StatusCode::BAD_REQUEST))
}

/// The headers that accept a socket.
pub(crate) fn accepting(key: &str, further: HeaderMap) -> HeaderMap {
    let mut headers = further;
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = derive_accept_key(key.as_bytes()).parse() {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    headers
}

type Stream = WebSocketStream<TokioIo<Upgraded>>;

impl Connection {
    /// Serves the socket until either side has closed it.
    pub(crate) async fn serve(self, upgrade: OnUpgrade) {
        let Ok(upgraded) = upgrade.await else { return };
        let config = WebSocketConfig::default()
            .max_message_size(Some(LARGEST))
            .max_frame_size(Some(LARGEST));
        let stream = TokioIo::new(upgraded);
        let stream = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await;
        let (sink, stream) = stream.split();
        let heard = Arc::new(AtomicBool::new(true));
        let (closed, is_closed) = oneshot::channel();
        let reading = read(stream, self.events, Arc::clone(&heard), closed);
        let reading = tokio::spawn(reading);
        write(sink, self.outgoing, &heard, is_closed, &self.ends).await;
        // A client that does not close its side is not waited for.
        let mut reading = reading;
        if timeout(CLOSE, &mut reading).await.is_err() {
            reading.abort();
        }
    }
}

/// Hands the client's messages on.
async fn read(
    mut stream: SplitStream<Stream>,
    events: mpsc::Sender<Event>,
    heard: Arc<AtomicBool>,
    closed: oneshot::Sender<Option<u16>>,
) {
    let (mut code, mut reason, mut answer) = (1006, String::new(), None);
    while let Some(message) = stream.next().await {
        heard.store(true, Ordering::Relaxed);
        let event = match message {
            Ok(Message::Text(text)) => Event::Text(text.as_str().to_owned()),
            Ok(Message::Binary(bytes)) => Event::Bytes(bytes),
            Ok(Message::Close(frame)) => {
                // 1005: it has named none (RFC 6455, 7.1.5).
                code = frame.as_ref().map_or(1005, |frame| frame.code.into());
                reason = frame.map(|frame| frame.reason.to_string()).unwrap_or_default();
                continue;
            }
            Ok(_) => continue,
            Err(error) => {
                answer = match error {
                    Error::Capacity(_) => Some(1009),
                    Error::Utf8(_) => Some(1007),
                    Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
                    Error::Protocol(_) => Some(1002),
                    _ => None,
                };
                break;
            }
        };
        // An application that has ended hears nothing.
        drop(events.send(event).await);
    }
    if code == 1006 {
        code = answer.unwrap_or(code);
    }
    // The writer may have ended.
    let _ = closed.send(answer);
    drop(events.send(Event::Disconnect { code, reason }).await);
}

/// Sends the application's messages, and asks the client now and then whether it is there.
async fn write(
    mut sink: SplitSink<Stream, Message>,
    mut outgoing: mpsc::Receiver<Outgoing>,
    heard: &AtomicBool,
    mut closed: oneshot::Receiver<Option<u16>>,
    ends: &Ends,
) {
    let mut pings = interval(PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pings.tick().await;
    let close = loop {
        let message = tokio::select! {
            // In this order: an application that hears of a wrong frame may end, and its close would come before the answer.
            biased;
            answer = &mut closed => match answer {
                Ok(Some(code)) => break Some((code, String::new())),
                _ => break None,
            },
            () = ends.wait() => break Some((1012, String::new())),
            _ = pings.tick() => {
                if !heard.swap(false, Ordering::Relaxed) {
                    break Some((1011, "keepalive ping timeout".to_owned()));
                }
                Message::Ping(Bytes::new())
            }
            outgoing = outgoing.recv() => match outgoing {
                Some(Outgoing::Message(message)) => message,
                Some(Outgoing::Close { code, reason }) => break Some((code, reason)),
                None => break Some((1011, String::new())),
            },
        };
        if sink.send(message).await.is_err() {
            break None;
        }
    };
    if let Some((code, reason)) = close {
        let frame = CloseFrame { code: CloseCode::from(code), reason: reason.into() };
        drop(timeout(CLOSE, sink.send(Message::Close(Some(frame)))).await);
    }
    // The answer to the client's own close.
    drop(timeout(CLOSE, sink.flush()).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(headers: &[(&str, &str)]) -> Option<Result<String, StatusCode>> {
        let mut request = hyper::Request::get("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        asked(&request.body(()).unwrap().into_parts().0)
    }

    #[test]
    fn a_client_asks_for_a_socket_with_a_key_of_16_bytes() {
        let upgrade = [("connection", "keep-alive, Upgrade"), ("upgrade", "WebSocket")];
        let key = ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        let version = ("sec-websocket-version", "13");
        assert_eq!(of(&[upgrade[0], upgrade[1], key, version]), Some(Ok(key.1.to_owned())));
        assert_eq!(of(&[upgrade[0], upgrade[1], key]), Some(Err(StatusCode::UPGRADE_REQUIRED)));
        let short = ("sec-websocket-key", "YQ==");
        let wrong = of(&[upgrade[0], upgrade[1], short, version]);
        assert_eq!(wrong, Some(Err(StatusCode::BAD_REQUEST)));
        assert_eq!(of(&[upgrade[0], key, version]), None);
        // The example of RFC 6455, 1.3.
        let headers = accepting(key.1, HeaderMap::new());
        assert_eq!(headers[header::SEC_WEBSOCKET_ACCEPT], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
