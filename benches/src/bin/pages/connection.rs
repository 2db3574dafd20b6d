//! One connection, which is opened again where the server closes it.
//!
//! Requests are bytes that were made before, and only the head's end, the length and two headers of a response are looked for: what
//! the client takes of the processors, the server lacks.

use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::ops::Range;
use std::rc::Rc;

use anyhow::{Context, Result, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::cases::{Case, Cases};
use crate::report::Counted;

/// The most headers of a response.
const HEADERS: usize = 32;

/// Where requests go, and what they are.
#[derive(Clone)]
pub struct Target {
    pub port: u16,
    pub cases: Rc<Cases>,
    /// Requests after which a connection is opened again.
    pub renew: Option<usize>,
}

/// A connection to a server, whether it is open at the moment or not.
pub struct Connection {
    target: Target,
    stream: Option<TcpStream>,
    /// Requests that the open stream has had.
    asked: usize,
    buffer: Vec<u8>,
}

/// The end of an exchange without a response.
enum Failure {
    /// The server has closed the connection before the first byte of a response, which it may where it had none to send.
    Closed,
    Other(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

impl Connection {
    pub fn new(target: &Target) -> Self {
        Self { target: target.clone(), stream: None, asked: 0, buffer: Vec::new() }
    }

    /// Sends a request, reads its response and compares it. Any other response than the right one is an error: a comparison of wrong
    /// ones is worth nothing.
    pub async fn ask(&mut self, number: usize, counted: &mut Counted) -> Result<()> {
        let cases = Rc::clone(&self.target.cases);
        let case = cases.turn(number);
        if self.target.renew.is_some_and(|renew| self.asked >= renew) {
            self.stream = None;
        }
        let is_old = self.stream.is_some();
        let head = match self.exchange(case).await {
            // The server may close a connection at any moment between two requests (RFC 9112, 9.5), so a client asks again.
            Err(Failure::Closed) if is_old => {
                self.stream = None;
                self.exchange(case).await
            }
            other => other,
        };
        let head = match head {
            Ok(head) => head,
            Err(Failure::Closed) => bail!("the server has closed a new connection unanswered"),
            Err(Failure::Other(error)) => return Err(error),
        };
        let body = &self.buffer[head.length..];
        if head.status != 200 {
            bail!("the server answers {}: {:.500}", head.status, String::from_utf8_lossy(body));
        }
        ensure!(
            body == case.body,
            "the body of response {number} differs from plain python's: {:.500}",
            String::from_utf8_lossy(body)
        );
        ensure!(!head.worker.is_empty(), "response {number} does not name its worker");
        let worker = std::str::from_utf8(&self.buffer[head.worker])?;
        counted.reached(worker);
        self.asked += 1;
        if head.closes {
            self.stream = None;
        }
        Ok(())
    }

    /// One request and its whole response, which is in the buffer afterwards.
    async fn exchange(&mut self, case: &Case) -> Result<Head, Failure> {
        if self.stream.is_none() {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.target.port)).await;
            let stream = stream.context("connecting")?;
            stream.set_nodelay(true)?;
            (self.stream, self.asked) = (Some(stream), 0);
        }
        let Some(stream) = &mut self.stream else { return Err(Failure::Closed) };
        self.buffer.clear();
        let gone = [ErrorKind::BrokenPipe, ErrorKind::ConnectionReset];
        match stream.write_all(&case.request).await {
            Err(error) if gone.contains(&error.kind()) => return Err(Failure::Closed),
            other => other.context("sending a request")?,
        }
        let mut head = None;
        loop {
            match stream.read_buf(&mut self.buffer).await {
                Ok(0) if self.buffer.is_empty() => return Err(Failure::Closed),
                Err(error) if self.buffer.is_empty() && gone.contains(&error.kind()) => {
                    return Err(Failure::Closed);
                }
                Ok(0) => return Err(anyhow::anyhow!("the response ends early").into()),
                other => other.context("reading a response")?,
            };
            if head.is_none() {
                head = Head::parse(&self.buffer)?;
            }
            if let Some(found) = &head {
                let end = found.length + found.body;
                if self.buffer.len() > end {
                    return Err(anyhow::anyhow!("the response is longer than it says").into());
                }
                if self.buffer.len() == end {
                    return head.context("a head").map_err(Failure::Other);
                }
            }
        }
    }
}

/// The part of a response's head that the client needs to know.
#[derive(Debug, PartialEq, Eq)]
struct Head {
    status: u16,
    /// Bytes of the head.
    length: usize,
    /// Bytes of the body.
    body: usize,
    closes: bool,
    /// Where in the head the worker's name begins and ends.
    worker: Range<usize>,
}

impl Head {
    /// Nothing while the head is not complete.
    fn parse(bytes: &[u8]) -> Result<Option<Self>> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut response = httparse::Response::new(&mut headers);
        let httparse::Status::Complete(length) = response.parse(bytes)? else { return Ok(None) };
        let header = |name: &str| {
            let found =
                response.headers.iter().find(|header| header.name.eq_ignore_ascii_case(name));
            found.map(|header| header.value)
        };
        let body = header("content-length").context("the response does not say how long it is")?;
        // A slice of the same bytes. An error's response need not have it.
        let worker = header("x-worker").unwrap_or(&bytes[..0]);
        let begin = worker.as_ptr().addr() - bytes.as_ptr().addr();
        Ok(Some(Self {
            status: response.code.context("a status")?,
            length,
            body: std::str::from_utf8(body)?.parse().context("the length of the response")?,
            closes: header("connection").is_some_and(|value| value.eq_ignore_ascii_case(b"close")),
            worker: begin..begin + worker.len(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_when_it_is_complete() {
        let text = "HTTP/1.1 200 OK\r\nX-Worker: 7-ab\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc";
        let head = Head::parse(text.as_bytes()).expect("HTTP").expect("a head");
        assert_eq!((head.status, head.body, head.closes), (200, 3, true));
        assert_eq!(&text[head.length..], "abc");
        assert_eq!(&text[head.worker], "7-ab");
        assert_eq!(Head::parse(&text.as_bytes()[..40]).expect("the begin of HTTP"), None);
        let error = Head::parse(b"HTTP/1.1 200 OK\r\n\r\n").expect_err("no length").to_string();
        assert_eq!(error, "the response does not say how long it is");
        assert!(Head::parse(b"no HTTP\r\n\r\n").is_err());
    }
}
