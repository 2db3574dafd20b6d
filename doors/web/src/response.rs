//! Responses on their way from an application to hyper: what a head may hold, and bodies in pieces.

use crate::file::{FileBody, FilePart};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::{StatusCode, header};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// A response's status and headers.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
}

/// A response that has begun.
pub(crate) struct Reply {
    pub(crate) head: Head,
    pub(crate) body: ResponseBody,
}

/// A piece of a body.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) data: Bytes,
    pub(crate) is_last: bool,
}

/// Headers about the connection, which is the server's (RFC 9110, 7.6.1; PEP 3333, "Other HTTP Features").
const OF_CONNECTION: [HeaderName; 6] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// The server's name, where the application does not set one.
const SERVER: HeaderValue = HeaderValue::from_static("hydrozoa");

impl Head {
    /// Of `count` headers, each a name and a value, all separated by line feeds. With `lenient`, headers about the connection are
    /// left out.
    ///
    /// # Errors
    ///
    /// Words for the application's author.
    pub(crate) fn parse(
        status: StatusCode,
        fields: &[u8],
        count: usize,
        lenient: bool,
    ) -> Result<Self, String> {
        let mut headers = HeaderMap::with_capacity(count + 2);
        let mut parts = fields.split(|byte| *byte == b'\n');
        let seen = if count == 0 { 0 } else { parts.clone().count() };
        if seen != 2 * count {
            return Err("a header of the response has a line feed in it".to_owned());
        }
        for _ in 0..count {
            let (Some(name), Some(value)) = (parts.next(), parts.next()) else { break };
            let shown = || String::from_utf8_lossy(name).into_owned();
            let name = HeaderName::from_bytes(name)
                .map_err(|_| format!("{:?} is not the name of a header", shown()))?;
            let value = HeaderValue::from_bytes(value).map_err(|_| {
                format!("the response's header {:?} has a value with control characters", shown())
            })?;
            if OF_CONNECTION.contains(&name) {
                if lenient {
                    // The end of the connection is the one thing about it that an application may ask for.
                    if name == header::CONNECTION && has_close(&value) {
                        headers.insert(name, HeaderValue::from_static("close"));
                    }
                    continue;
                }
                return Err(format!(
                    "the header {name} is about the connection, which is the server's: an application must not set it"
                ));
            }
            headers.append(name, value);
        }
        if headers.get_all(header::CONTENT_LENGTH).iter().nth(1).is_some() {
            return Err("the response has more than one Content-Length".to_owned());
        }
        headers.entry(header::SERVER).or_insert(SERVER);
        Ok(Self { status, headers })
    }
}

/// Whether a value of `Connection` asks for the connection's end.
fn has_close(value: &HeaderValue) -> bool {
    value
        .as_bytes()
        .split(|byte| *byte == b',')
        .any(|part| part.trim_ascii().eq_ignore_ascii_case(b"close"))
}

/// The status of WSGI: three digits, and a phrase, which is not sent.
pub(crate) fn wsgi_status(text: &str) -> Result<StatusCode, String> {
    let wrong = || format!("the status {text:?} is not of the form `200 OK`");
    let (code, rest) = text.split_at_checked(3).ok_or_else(wrong)?;
    let is_code = code.bytes().all(|byte| byte.is_ascii_digit());
    let is_apart = rest.is_empty() || rest.starts_with(' ');
    let has_controls = rest.bytes().any(|byte| byte < b' ' || byte == 0x7f);
    if !is_code || !is_apart || has_controls {
        return Err(wrong());
    }
    status(code.parse().map_err(|_| wrong())?)
}

/// A final status.
pub(crate) fn status(code: u16) -> Result<StatusCode, String> {
    let status = StatusCode::from_u16(code).ok().filter(|status| !status.is_informational());
    status.ok_or_else(|| format!("{code} is not the status of a response: it is from 200 to 999"))
}

impl Reply {
    /// The server's own response, for an application that has not given one.
    pub(crate) fn problem(status: StatusCode) -> Self {
        let mut headers = HeaderMap::new();
        let plain = HeaderValue::from_static("text/plain; charset=utf-8");
        headers.insert(header::CONTENT_TYPE, plain);
        headers.insert(header::SERVER, SERVER);
        let text = status.canonical_reason().unwrap_or("error");
        let body = ResponseBody::whole(Bytes::from(format!("{text}\n")));
        Self { head: Head { status, headers }, body }
    }
}

/// A value that a body keeps until the client has the body, or has gone.
pub(crate) trait Watch: Send {
    /// So many bytes of it leave.
    fn sent(&mut self, bytes: usize);
}

/// A response's body.
pub struct ResponseBody {
    first: Bytes,
    rest: Rest,
    watch: Option<Box<dyn Watch>>,
}

/// The bytes behind the first ones of a body.
enum Rest {
    Nothing,
    Pieces(mpsc::Receiver<Piece>),
    File(FileBody),
}

/// The application has not sent its whole response. hyper closes the connection, so that the client sees it.
#[derive(Debug, thiserror::Error)]
#[error("the application has not sent the rest of its response")]
pub struct Unfinished;

impl ResponseBody {
    pub(crate) fn whole(first: Bytes) -> Self {
        Self { first, rest: Rest::Nothing, watch: None }
    }

    /// A part of a file, whose first bytes are read already.
    pub(crate) fn file(first: Bytes, rest: FilePart) -> Self {
        Self { first, rest: Rest::File(FileBody::Waits(rest)), watch: None }
    }

    pub(crate) fn pieces(first: Bytes, pieces: mpsc::Receiver<Piece>) -> Self {
        Self { first, rest: Rest::Pieces(pieces), watch: None }
    }

    /// Keeps this until the body is dropped, and tells it what leaves.
    pub(crate) fn watched(mut self, watch: impl Watch + 'static) -> Self {
        self.watch = Some(Box::new(watch));
        self
    }

    #[cfg(test)]
    pub(crate) fn into_whole(self) -> Option<Bytes> {
        matches!(self.rest, Rest::Nothing).then_some(self.first)
    }

    fn given(&mut self, data: Bytes) -> Poll<Option<Result<Frame<Bytes>, Unfinished>>> {
        if let Some(watch) = &mut self.watch {
            watch.sent(data.len());
        }
        Poll::Ready(Some(Ok(Frame::data(data))))
    }
}

impl http_body::Body for ResponseBody {
    type Data = Bytes;
    type Error = Unfinished;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Unfinished>>> {
        if !self.first.is_empty() {
            let first = std::mem::take(&mut self.first);
            return self.given(first);
        }
        let pieces = match &mut self.rest {
            Rest::Nothing => return Poll::Ready(None),
            Rest::File(file) => {
                return match std::task::ready!(file.poll(context)) {
                    Some(Ok(piece)) => self.given(piece),
                    Some(Err(error)) => {
                        tracing::error!(
                            "a file cannot be read to the end of its response: {error}"
                        );
                        Poll::Ready(Some(Err(Unfinished)))
                    }
                    None => Poll::Ready(None),
                };
            }
            Rest::Pieces(pieces) => pieces,
        };
        match std::task::ready!(pieces.poll_recv(context)) {
            Some(Piece { data, is_last }) => {
                if is_last {
                    self.rest = Rest::Nothing;
                    if data.is_empty() {
                        return Poll::Ready(None);
                    }
                }
                self.given(data)
            }
            None => Poll::Ready(Some(Err(Unfinished))),
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_read = match &self.rest {
            Rest::Nothing => true,
            Rest::Pieces(_) => false,
            Rest::File(file) => file.length() == 0,
        };
        self.first.is_empty() && is_read
    }

    fn size_hint(&self) -> SizeHint {
        let first = self.first.len() as u64;
        match &self.rest {
            Rest::Nothing => SizeHint::with_exact(first),
            Rest::Pieces(_) => SizeHint::default(),
            Rest::File(file) => SizeHint::with_exact(first + file.length()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(fields: &str, count: usize) -> String {
        Head::parse(StatusCode::OK, fields.as_bytes(), count, false).unwrap_err()
    }

    #[test]
    fn a_head_cannot_smuggle_another_header() {
        assert!(refused("a\nb\nc\nd", 1).contains("has a line feed in it"));
        assert!(refused("a\nb\rc", 1).contains("a value with control characters"));
        assert!(refused("a b\nc", 1).contains("is not the name of a header"));
        assert!(refused("a\nb\0", 1).contains("\"a\" has a value with control characters"));
        for name in ["Connection", "transfer-encoding", "Upgrade", "keep-alive"] {
            assert!(refused(&format!("{name}\nx"), 1).contains("is about the connection"));
        }
        let twice = refused("content-length\n1\nContent-Length\n1", 2);
        assert!(twice.contains("more than one Content-Length"));
        let fields = b"connection\nx, Close\nkeep-alive\n5\nupgrade\nh2c\nset-cookie\na";
        let lenient = Head::parse(StatusCode::OK, fields, 4, true).unwrap().headers;
        let names: Vec<_> = lenient.keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["connection", "set-cookie", "server"]);
        assert_eq!(lenient["connection"], "close");
        let kept = Head::parse(StatusCode::OK, b"connection\nkeep-alive", 1, true).unwrap();
        assert_eq!(kept.headers.len(), 1);
    }

    #[test]
    fn a_status_is_three_digits_and_a_phrase() {
        assert_eq!(wsgi_status("200 OK"), Ok(StatusCode::OK));
        assert_eq!(wsgi_status("404").map(|status| status.as_u16()), Ok(404));
        for wrong in ["", "20", "2000", "200\tOK", "200 a\r\nb: c", "abc d", "+20 x", "\u{661}00"] {
            assert!(wsgi_status(wrong).unwrap_err().contains("is not of the form"), "{wrong:?}");
        }
        assert!(wsgi_status("100 Continue").unwrap_err().contains("from 200 to 999"));
        assert_eq!(Unfinished.to_string(), "the application has not sent the rest of its response");
    }
}
