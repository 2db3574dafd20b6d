//! WebSockets (RFC 6455) of applications of ASGI: frames on one side, events on the other.
//!
//! The crate yawc frames and compresses. The terms of compression are agreed on here.
//!
//! Two tasks serve a socket: one takes the client's messages, at most so many ahead of the application, the other sends the
//! application's. Neither waits for the other, so a client and an application that both only send do not hold each other up.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{Sink, SinkExt as _, Stream, StreamExt as _};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper::{Method, StatusCode, Version};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use sha1::{Digest as _, Sha1};
use std::future::poll_fn;
use std::io::ErrorKind;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::time::{MissedTickBehavior, interval, timeout};
use yawc::close::CloseCode;
use yawc::{DeflatePool, Frame, OpCode, Options, Role, WebSocket, WebSocketError};

/// Messages that wait for the application, or for the client.
const WAITING: usize = 16;

/// Bytes of the largest message, as with uvicorn.
const LARGEST: usize = 16 << 20;

/// How often the client is asked whether it is there. One that says nothing twice has gone.
const PING: Duration = Duration::from_secs(20);

/// How long a client may take to close its side.
const CLOSE: Duration = Duration::from_secs(5);

/// Bytes of the longest close frame (RFC 6455, 5.5).
const LONGEST_CLOSE: usize = 125;

/// Bytes of a message that is worth compressing.
const WORTH_COMPRESSING: usize = 64;

/// Compressors that are kept for the next message, of whichever socket.
const COMPRESSORS: usize = 16;

/// How sockets are served. A compressor takes some 370 KiB. None of them is a socket's own.
static OPTIONS: LazyLock<Options> = LazyLock::new(|| {
    Options::default()
        .with_utf8()
        // yawc's limit is the first length that is too large.
        .with_limits(LARGEST + 1, LARGEST + 1)
        .with_low_latency_compression()
        .server_no_context_takeover()
        .client_no_context_takeover()
        .with_deflate_pool(DeflatePool::new(COMPRESSORS))
        .with_compression_threshold(WORTH_COMPRESSING)
        .with_read_buffer_capacity(1024)
        .with_write_buffer_capacity(1024)
});

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
pub(crate) enum Outgoing {
    Message(Frame),
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
pub(crate) fn accepting(key: &str, compression: Option<&str>, further: HeaderMap) -> HeaderMap {
    let mut headers = further;
    headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    // RFC 6455, 1.3.
    let accept = Sha1::new().chain_update(key).chain_update("258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let values = [
        (header::SEC_WEBSOCKET_ACCEPT, Some(STANDARD.encode(accept.finalize()))),
        (header::SEC_WEBSOCKET_EXTENSIONS, compression.map(str::to_owned)),
    ];
    for (name, value) in values {
        if let Some(Ok(value)) = value.map(HeaderValue::try_from) {
            headers.insert(name, value);
        }
    }
    headers
}

/// The terms under which messages are compressed: an answer to the first of the client's offers that can be met
/// (RFC 7692, 5.1 and 7.1).
pub(crate) fn compression(headers: &HeaderMap) -> Option<String> {
    let offers = headers.get_all(header::SEC_WEBSOCKET_EXTENSIONS).iter();
    let offers = offers.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    offers.map(str::trim).find_map(terms)
}

/// The answer to one offer. A parameter that is unknown, wrong or named twice declines it.
fn terms(offer: &str) -> Option<String> {
    let mut parts = offer.split(';').map(str::trim);
    if parts.next() != Some("permessage-deflate") {
        return None;
    }
    let mut terms =
        "permessage-deflate; server_no_context_takeover; client_no_context_takeover".to_owned();
    let mut seen = Vec::new();
    for part in parts {
        let (name, value) = match part.split_once('=') {
            Some((name, value)) => (name.trim(), Some(value.trim().trim_matches('"'))),
            None => (part, None),
        };
        if seen.contains(&name) {
            return None;
        }
        seen.push(name);
        let bits = value.map(|value| value.parse::<u8>().ok().filter(|_| !value.starts_with('0')));
        match (name, bits) {
            ("server_no_context_takeover" | "client_no_context_takeover", None) => {}
            // The client could use a smaller window. It need not.
            ("client_max_window_bits", None | Some(Some(8..=15))) => {}
            // zlib has no window of 8 bits for raw streams.
            ("server_max_window_bits", Some(Some(bits @ 9..=15))) => {
                terms.push_str(&format!("; server_max_window_bits={bits}"));
            }
            _ => return None,
        }
    }
    Some(terms)
}

/// Frames of a connection. A wrong one is an error behind the close that answers it.
struct Frames(WebSocket<TokioIo<Upgraded>>);

impl Stream for Frames {
    type Item = Result<Frame, WebSocketError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let frame = ready!(self.0.poll_next_frame(context)).and_then(|frame| {
            // yawc would send it back.
            let is_wrong = frame.opcode() == OpCode::Close && frame.payload().len() > LONGEST_CLOSE;
            if is_wrong { Err(WebSocketError::InvalidCloseFrame) } else { Ok(frame) }
        });
        // yawc has an answer of its own, for some errors and with other codes. It would go out with the next frame that is read.
        if let Err(error) = &frame
            && let Some(code) = code_of(error)
        {
            // The connection may be broken.
            drop(self.0.start_send_unpin(Frame::close(code.into(), "")));
        }
        Poll::Ready(Some(frame))
    }
}

/// The code that answers a wrong frame (RFC 6455, 7.4.1). The end of the connection has no answer.
fn code_of(error: &WebSocketError) -> Option<u16> {
    match error {
        WebSocketError::FrameTooLarge => Some(1009),
        WebSocketError::InvalidUTF8 => Some(1007),
        // zlib's words about compressed data.
        WebSocketError::IoError(error) if error.kind() == ErrorKind::InvalidInput => Some(1002),
        error if error.is_protocol_error() => Some(1002),
        _ => None,
    }
}

impl Sink<Frame> for Frames {
    type Error = WebSocketError;

    fn poll_ready(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready_unpin(context)
    }

    fn start_send(mut self: Pin<&mut Self>, frame: Frame) -> Result<(), Self::Error> {
        self.0.start_send_unpin(frame)
    }

    fn poll_flush(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Self::Error>> {
        self.0.poll_flush_unpin(context)
    }

    fn poll_close(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<(), Self::Error>> {
        self.0.poll_close_unpin(context)
    }
}

impl Connection {
    /// Serves the socket until either side has closed it.
    pub(crate) async fn serve(self, upgrade: OnUpgrade, compression: Option<String>) {
        let Ok(upgraded) = upgrade.await else { return };
        let (stream, options) = (TokioIo::new(upgraded), OPTIONS.clone());
        let socket = WebSocket::from_stream_with_extensions(
            stream,
            Role::Server,
            compression.as_deref(),
            options,
        );
        let (sink, stream) = Frames(socket.expect("compression is among the options")).split();
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
    mut stream: SplitStream<Frames>,
    events: mpsc::Sender<Event>,
    heard: Arc<AtomicBool>,
    closed: oneshot::Sender<()>,
) {
    let (code, reason) = loop {
        let frame = stream.next().await;
        heard.store(true, Ordering::Relaxed);
        let frame = match frame {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => break (code_of(&error).unwrap_or(1006), String::new()),
            None => break (1006, String::new()),
        };
        let event = match frame.opcode() {
            OpCode::Text => Event::Text(frame.as_str().to_owned()),
            OpCode::Binary => Event::Bytes(frame.into_payload()),
            OpCode::Close => {
                // 1005: the client has named none (RFC 6455, 7.1.5).
                let reason = frame.close_reason().ok().flatten().unwrap_or_default().to_owned();
                // Sends the answer to it.
                drop(stream.next().await);
                break (frame.close_code().map_or(1005, u16::from), reason);
            }
            OpCode::Ping | OpCode::Pong | OpCode::Continuation => continue,
        };
        // An application that has ended hears nothing.
        drop(events.send(event).await);
    };
    // The writer may have ended.
    let _ = closed.send(());
    drop(events.send(Event::Disconnect { code, reason }).await);
}

/// Sends the application's messages, and asks the client now and then whether it is there.
async fn write(
    mut sink: SplitSink<Frames, Frame>,
    mut outgoing: mpsc::Receiver<Outgoing>,
    heard: &AtomicBool,
    mut closed: oneshot::Receiver<()>,
    ends: &Ends,
) {
    let mut pings = interval(PING);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    pings.tick().await;
    let close = loop {
        let message = tokio::select! {
            // In this order: an application that hears of a wrong frame may end, and its close would come before the answer.
            biased;
            _ = &mut closed => break None,
            () = ends.wait() => break Some((1012, String::new())),
            _ = pings.tick() => {
                if !heard.swap(false, Ordering::Relaxed) {
                    break Some((1011, "keepalive ping timeout".to_owned()));
                }
                Frame::ping(Bytes::new())
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
        let frame = Frame::close(CloseCode::from(code), reason);
        drop(timeout(CLOSE, sink.send(frame)).await);
    }
    // The answer to the client's own close, or to its wrong frame.
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
        let headers = accepting(key.1, None, HeaderMap::new());
        assert_eq!(headers[header::SEC_WEBSOCKET_ACCEPT], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }

    #[test]
    fn an_offer_of_compression_is_met_whole_or_not_at_all() {
        let answer = |offers: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::SEC_WEBSOCKET_EXTENSIONS, offers.parse().unwrap());
            compression(&headers)
        };
        let plain = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
        for offer in [
            "permessage-deflate",
            "permessage-deflate; client_max_window_bits",
            "x-webkit-deflate-frame, permessage-deflate ; client_max_window_bits = \"10\"",
            "permessage-deflate; server_no_context_takeover",
            "permessage-deflate; unknown, permessage-deflate",
        ] {
            assert_eq!(answer(offer).as_deref(), Some(plain), "{offer}");
        }
        let smaller = answer("permessage-deflate; server_max_window_bits=9").unwrap();
        assert_eq!(smaller, format!("{plain}; server_max_window_bits=9"));
        for offer in [
            "permessage-bzip2",
            "permessage-deflate; server_max_window_bits",
            "permessage-deflate; server_max_window_bits=8",
            "permessage-deflate; client_max_window_bits=16",
            "permessage-deflate; client_max_window_bits=010",
            "permessage-deflate; server_no_context_takeover=1",
            "permessage-deflate; client_max_window_bits; client_max_window_bits",
        ] {
            assert_eq!(answer(offer), None, "{offer}");
        }
    }
}
