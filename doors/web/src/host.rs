//! The functions that Python code in a worker calls: it reads a request's body by them, and sends the response.

use crate::exchange::{BodyFault, Exchange, Exchanges, Sent};
use crate::file::FilePart;
use crate::response::{self, Head};
use crate::served::Served;
use crate::websocket::{Decision, Event, Outgoing};
use bytes::Bytes;
use hydrozoa::convert::Value;
use hydrozoa::{Arguments, Error, Object, Result, Session};
use hyper::StatusCode;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use tokio::runtime::Handle;
use tokio::time::timeout_at;
use yawc::Frame;

/// Bytes of a body that ASGI gets at once.
const MOST: usize = 64 << 10;

/// The functions of one worker, over the requests that it has.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) exchanges: Arc<Exchanges>,
    pub(crate) served: Arc<Served>,
    /// Its timers wake the threads that wait for clients.
    pub(crate) runtime: Handle,
}

impl Host {
    fn exchange(&self, arguments: &Arguments<'_>) -> Result<Arc<Exchange>> {
        let number: u64 = arguments.extract(0)?;
        self.exchanges
            .find(number)
            .ok_or_else(|| Error::raise("ValueError", "the request has ended"))
    }

    /// Waits on a thread of WSGI, at most until its request's deadline.
    fn wait<T>(
        &self,
        session: &Session,
        deadline: Option<Instant>,
        future: impl Future<Output = T> + Send,
    ) -> Result<T>
    where
        T: Send,
    {
        let waited = session.without_gil(|| {
            self.runtime.block_on(async {
                match deadline {
                    Some(deadline) => timeout_at(deadline.into(), future).await.ok(),
                    None => Some(future.await),
                }
            })
        });
        waited
            .ok_or_else(|| Error::raise("TimeoutError", "the client has kept the request waiting"))
    }

    /// `read(number, most)` of WSGI: at least a byte, or none at the body's end.
    pub(crate) fn read<'s>(&self, session: &'s Session) -> Result<Object<'s>> {
        let host = self.clone();
        session.function("read", move |session, arguments| {
            let exchange = host.exchange(&arguments)?;
            let most = arguments.extract(1)?;
            let read = host.wait(session, exchange.deadline(), exchange.read(most))?;
            session.object_from(&*read.map_err(raised)?)
        })
    }

    /// `reply(number, status, fields, count, piece, more)`: the response's head with its first piece. For WSGI it returns whether
    /// the client wants more.
    pub(crate) fn reply<'s>(&self, session: &'s Session, is_wsgi: bool) -> Result<Object<'s>> {
        let host = self.clone();
        session.function("reply", move |session, arguments| {
            let exchange = host.exchange(&arguments)?;
            let more = arguments.extract(5)?;
            let first: Vec<u8> = arguments.parameter(4, "piece of the body")?;
            let head = head(&arguments, is_wsgi)?;
            let replied = head.and_then(|head| exchange.reply(head, first.into(), more));
            let wanted = replied.map_err(|words| Error::raise("ValueError", words))?;
            if is_wsgi { session.object_from(&wanted) } else { session.none() }
        })
    }

    /// `reply_file(number, status, fields, count, descriptor, position)` of WSGI: the whole response, whose body is a file from a
    /// position on. It returns whether the file can be sent so.
    pub(crate) fn reply_file<'s>(&self, session: &'s Session) -> Result<Object<'s>> {
        let host = self.clone();
        session.function("reply_file", move |session, arguments| {
            let exchange = host.exchange(&arguments)?;
            let (descriptor, at) = (arguments.extract(4)?, arguments.extract(5)?);
            let Ok(Some(file)) = FilePart::of_descriptor(descriptor, at) else {
                return session.object_from(&false);
            };
            let head = head(&arguments, true)?;
            let reply = || head.and_then(|head| exchange.reply_file(head, file));
            session.without_gil(reply).map_err(|words| Error::raise("ValueError", words))?;
            session.object_from(&true)
        })
    }

    /// `send_path(number, status, fields, count, path)` of ASGI: an awaitable until the response is on its way, whose body is the file
    /// with this path.
    pub(crate) fn send_path<'s>(&self, session: &'s Session) -> Result<Object<'s>> {
        let host = self.clone();
        session.function("send_path", move |session, arguments| {
            let exchange = host.exchange(&arguments)?;
            let path: Vec<u8> = arguments.parameter(4, "path")?;
            let head = head(&arguments, false)?;
            let path = PathBuf::from(OsString::from_vec(path));
            // The event loop does not wait for the disk.
            let begun = host.runtime.spawn_blocking(move || {
                let file = FilePart::open(&path).map_err(|error| {
                    Error::raise("OSError", format!("{}: {error}", path.display()))
                })?;
                let words = || format!("{} is not a regular file", path.display());
                let file = file.ok_or_else(|| Error::raise("OSError", words()))?;
                let replied = head.and_then(|head| exchange.reply_file(head, file));
                replied.map_err(|words| Error::raise("ValueError", words))
            });
            session.awaitable(async move {
                begun
                    .await
                    .unwrap_or_else(|error| Err(Error::raise("RuntimeError", error.to_string())))
            })
        })
    }

    /// `send(number, piece)` of WSGI, which waits until there is room. It returns whether the client wants more.
    pub(crate) fn send<'s>(&self, session: &'s Session) -> Result<Object<'s>> {
        let host = self.clone();
        session.function("send", move |session, arguments| {
            let exchange = host.exchange(&arguments)?;
            let piece: Vec<u8> = arguments.parameter(1, "piece of the body")?;
            session.object_from(&host.sent(session, &exchange, piece.into(), false)?)
        })
    }

    /// `finish(number)` of WSGI: the response is whole.
    pub(crate) fn finish<'s>(&self, session: &'s Session) -> Result<Object<'s>> {
        let host = self.clone();
        session.function("finish", move |session, arguments| {
            let exchange = host.exchange(&arguments)?;
            host.sent(session, &exchange, Bytes::new(), true)?;
            session.none()
        })
    }

    fn sent(
        &self,
        session: &Session,
        exchange: &Exchange,
        piece: Bytes,
        is_last: bool,
    ) -> Result<bool> {
        match exchange.send(piece, is_last) {
            Sent::Taken => Ok(true),
            Sent::Unwanted => Ok(false),
            Sent::Waits(pieces, piece) => {
                self.wait(
                    session,
                    exchange.deadline(),
                    async move { pieces.send(piece).await.is_ok() },
                )
            }
        }
    }

    /// `receive(number)` of ASGI: bytes of the body, none at its end, or `None` if its client has gone; or an awaitable of them.
    pub(crate) fn receive<'s>(&self, session: &'s Session) -> Result<Object<'s>> {
        let host = self.clone();
        session.function("receive", move |session, arguments| {
            let exchange = host.exchange(&arguments)?;
            let mut next = Box::pin(async move {
                let read = exchange.read(MOST).await;
                Ok(read.ok().map(Vec::from))
            });
            // Most often it is there.
            match next.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(read) => session.object_from(&read?),
                Poll::Pending => session.awaitable(next),
            }
        })
    }

    /// `send(number, piece, more)` of ASGI: `None`, an awaitable until the client has read, or `True` if it wants no more.
    pub(crate) fn send_later<'s>(&self, session: &'s Session) -> Result<Object<'s>> {
        let host = self.clone();
        session.function("send", move |session, arguments| {
            let exchange = host.exchange(&arguments)?;
            let piece: Vec<u8> = arguments.parameter(1, "piece of the body")?;
            let more: bool = arguments.extract(2)?;
            match exchange.send(piece.into(), !more) {
                Sent::Taken => session.none(),
                Sent::Unwanted => session.object_from(&more.then_some(true)),
                Sent::Waits(pieces, piece) => session.awaitable(async move {
                    // The application hears from `receive` that the client has gone.
                    drop(pieces.send(piece).await);
                    Ok(())
                }),
            }
        })
    }

    /// `left(number)` of ASGI: an awaitable of the client's end.
    pub(crate) fn left<'s>(&self, session: &'s Session) -> Result<Object<'s>> {
        let host = self.clone();
        session.function("left", move |session, arguments| {
            let exchange = host.exchange(&arguments).ok();
            session.awaitable(async move {
                if let Some(exchange) = exchange {
                    exchange.left().await;
                }
                Ok(())
            })
        })
    }
}

impl Host {
    /// `ended(number, path, traceback)` of ASGI: the application has returned, or raised with this traceback.
    pub(crate) fn ended<'s>(&self, session: &'s Session) -> Result<Object<'s>> {
        let host = self.clone();
        session.function("ended", move |session, arguments| {
            // The server may have given it up.
            let Ok(exchange) = host.exchange(&arguments) else { return session.none() };
            if let Some(traceback) = arguments.extract::<Option<String>>(2)? {
                let behind = if exchange.is_over() { ", behind its response" } else { "" };
                let (number, path) =
                    (session.interpreter().index() + 1, arguments.extract::<String>(1)?);
                exchange.fail(StatusCode::INTERNAL_SERVER_ERROR);
                tracing::error!(
                    "worker {number}: the application has raised for {path}{behind}:\n{}",
                    traceback.trim_end()
                );
            }
            match exchange.socket() {
                Some(socket) => {
                    socket.end(false);
                    // A response that rejects the client may not be whole.
                    exchange.cut();
                }
                // A coroutine that was cancelled has not answered.
                None => exchange.fail(StatusCode::BAD_GATEWAY),
            }
            host.exchanges.remove(exchange.number);
            host.served.count(session.interpreter());
            session.none()
        })
    }
}

/// Of WebSockets.
impl Host {
    /// `take(number)`: `str` or `bytes` of a message, or the code and the reason of the client's end; or an awaitable of them.
    pub(crate) fn take<'s>(&self, session: &'s Session) -> Result<Object<'s>> {
        let host = self.clone();
        session.function("take", move |session, arguments| {
            let exchange = host.exchange(&arguments)?;
            let mut next = Box::pin(async move {
                let socket = exchange.socket().ok_or_else(no_socket)?;
                Ok(match socket.event().await {
                    Event::Text(text) => Value::Str(text),
                    Event::Bytes(bytes) => Value::Bytes(bytes.into()),
                    Event::Disconnect { code, reason } => {
                        Value::Tuple(vec![Value::Int(code.into()), Value::Str(reason)])
                    }
                })
            });
            match next.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(event) => session.object_from(&event?),
                Poll::Pending => session.awaitable(next),
            }
        })
    }

    /// `accept(number, fields, count)`: the headers that accept a socket. `count` is 0, and `fields` a status, if it is rejected.
    pub(crate) fn accept<'s>(&self, session: &'s Session) -> Result<Object<'s>> {
        let host = self.clone();
        session.function("accept", move |session, arguments| {
            let exchange = host.exchange(&arguments)?;
            let socket = exchange.socket().ok_or_else(no_socket)?;
            let fields: Option<Vec<u8>> = arguments.extract(1)?;
            let decision = match fields {
                None => Ok(Decision::Reject(StatusCode::FORBIDDEN)),
                Some(fields) => {
                    let count: usize = arguments.extract(2)?;
                    let head = Head::parse(StatusCode::OK, &fields, count / 2, true);
                    head.map(|head| Decision::Accept(head.headers))
                }
            };
            let decision = decision.map_err(|words| Error::raise("ValueError", words))?;
            // The client may have gone, which the application hears as an event.
            socket.decide(decision);
            session.none()
        })
    }

    /// `deliver(number, message, code)`: a message of `str` or `bytes`, or with a code the end, for this reason. `None`, or `True` if
    /// the client has gone; or an awaitable of these until it has read.
    pub(crate) fn deliver<'s>(&self, session: &'s Session) -> Result<Object<'s>> {
        let host = self.clone();
        session.function("deliver", move |session, arguments| {
            let exchange = host.exchange(&arguments)?;
            let socket = exchange.socket().ok_or_else(no_socket)?;
            let code: Option<u16> = arguments.parameter(2, "code")?;
            let outgoing = match (arguments.extract::<Value>(1)?, code) {
                (Value::Str(reason), Some(code)) => Outgoing::Close { code, reason },
                (Value::Str(text), None) => Outgoing::Message(Frame::text(text)),
                (Value::Bytes(bytes), None) => Outgoing::Message(Frame::binary(bytes)),
                _ => return Err(Error::raise("TypeError", "a message is `str` or `bytes`")),
            };
            match socket.send(outgoing) {
                Ok(()) => session.none(),
                Err(None) => session.object_from(&true),
                Err(Some((sender, outgoing))) => session.awaitable(async move {
                    Ok(sender.send(outgoing).await.is_err().then_some(true))
                }),
            }
        })
    }
}

/// The head of a response: its status, and the names and values of headers. Its error is words for the application's author.
fn head(arguments: &Arguments<'_>, is_wsgi: bool) -> Result<Result<Head, String>> {
    let status = match is_wsgi {
        true => response::wsgi_status(&arguments.parameter::<String>(1, "status")?),
        false => response::status(arguments.parameter(1, "status")?),
    };
    let fields: Vec<u8> = arguments.extract(2)?;
    let count: usize = arguments.extract(3)?;
    // ASGI counts names and values.
    let count = if is_wsgi { count } else { count / 2 };
    Ok(status.and_then(|status| Head::parse(status, &fields, count, !is_wsgi)))
}

fn no_socket() -> Error {
    Error::raise("ValueError", "the request is not one for a WebSocket")
}

/// The exception for a body that does not come.
fn raised(fault: BodyFault) -> Error {
    match fault {
        BodyFault::Broken => {
            Error::raise("ConnectionResetError", "the client has not sent all of its request")
        }
        BodyFault::Slow => Error::raise("TimeoutError", "the request's body comes too slowly"),
    }
}
