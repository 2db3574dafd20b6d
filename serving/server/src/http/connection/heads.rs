//! Looks at the heads of requests on their way to hyper.
//!
//! hyper silently accepts two things that a proxy before the server may take for something else: lines that end in LF alone, and
//! a repeated `Content-Length` (RFC 9112, 2.2 and 6.3, permit both). This module finds them. It does not parse: it looks for the
//! ends of lines, and hyper tells it the length of each request's body.

use crate::guard::StreamWatch;
use bytes::{Buf, BytesMut};
use parking_lot::Mutex;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, ReadBuf};

/// Looks at a stream's bytes as they are read.
#[derive(Default)]
pub(crate) struct Heads {
    seen: Arc<Mutex<Seen>>,
    /// Bytes read beyond the end of a head or a body. They are passed on once hyper has said what they are.
    behind: BytesMut,
}

/// The part of a connection's requests seen so far.
#[derive(Default)]
pub(crate) struct Seen {
    position: Position,
    head: Head,
}

/// Where the next byte belongs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Position {
    #[default]
    Head,
    /// After a head that hyper has not reported on yet.
    Asked,
    /// So many bytes of a body are left.
    Body(u64),
    /// In a body whose end hyper will report.
    Chunks,
    /// Unknown: a client has sent a request directly behind chunks. The rest is not looked at.
    Unknown,
}

/// The part of a head seen so far.
struct Head {
    last: u8,
    /// Bytes of the line.
    line: usize,
    is_begun: bool,
    /// Whether the line is a `Content-Length` as far as it was seen.
    is_length: bool,
    lengths: usize,
    has_bare_ends: bool,
}

/// How long a request's body is.
#[derive(Clone, Copy)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
}

const LENGTH: &[u8] = b"content-length:";

impl Default for Head {
    fn default() -> Self {
        Self {
            last: b'\r',
            line: 0,
            is_begun: false,
            is_length: true,
            lengths: 0,
            has_bare_ends: false,
        }
    }
}

impl Head {
    /// Whether the head ends with this byte.
    fn ends_with(&mut self, byte: u8) -> bool {
        let last = std::mem::replace(&mut self.last, byte);
        if byte != b'\n' {
            if byte != b'\r' {
                self.is_begun = true;
                self.is_length &= LENGTH
                    .get(self.line)
                    .is_none_or(|expected| *expected == byte.to_ascii_lowercase());
                self.line += 1;
            }
            return false;
        }
        self.has_bare_ends |= last != b'\r';
        self.lengths += usize::from(self.is_length && self.line >= LENGTH.len());
        let is_end = self.is_begun && self.line == 0;
        (self.line, self.is_length) = (0, true);
        is_end
    }
}

impl Seen {
    /// How many of these bytes hyper may get: at least one. `bytes` must not be empty.
    fn pass(&mut self, bytes: &[u8]) -> usize {
        match self.position {
            Position::Head => {
                let end = bytes.iter().position(|byte| self.head.ends_with(*byte));
                end.map_or(bytes.len(), |end| {
                    self.position = Position::Asked;
                    end + 1
                })
            }
            Position::Body(left) => {
                let passed = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                self.position = of_length(left - passed as u64);
                passed
            }
            Position::Asked => {
                self.position = Position::Unknown;
                bytes.len()
            }
            Position::Chunks | Position::Unknown => bytes.len(),
        }
    }

    /// hyper has taken a request with such a body. Returns what is wrong with its head.
    pub(crate) fn take(&mut self, framing: Framing) -> Option<&'static str> {
        let head = std::mem::take(&mut self.head);
        if self.position != Position::Asked {
            self.position = Position::Unknown;
            return None;
        }
        self.position = match framing {
            Framing::Length(length) => of_length(length),
            Framing::Chunked => Position::Chunks,
        };
        if head.has_bare_ends {
            return Some("the request has a line that ends in LF alone, without CR");
        }
        if matches!(framing, Framing::Chunked) && head.lengths > 0 {
            // hyper takes the length away (RFC 9112, 6.1 and 6.3).
            return Some("the request has both `transfer-encoding` and `content-length`");
        }
        (head.lengths > 1).then_some("the request has more than one header `content-length`")
    }

    /// Whether a head has begun and not ended.
    pub(crate) fn is_within_head(&self) -> bool {
        self.position == Position::Head && self.head.is_begun
    }

    /// A request's body has ended.
    pub(crate) fn end(&mut self) {
        if self.position == Position::Chunks {
            self.position = Position::Head;
        }
    }
}

fn of_length(left: u64) -> Position {
    if left == 0 { Position::Head } else { Position::Body(left) }
}

impl Heads {
    pub(crate) fn seen(&self) -> Arc<Mutex<Seen>> {
        Arc::clone(&self.seen)
    }
}

impl StreamWatch for Heads {
    fn read<S: AsyncRead + Unpin>(
        &mut self,
        stream: &mut S,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let is_behind = !self.behind.is_empty();
        if is_behind {
            let length = self.behind.len().min(buffer.remaining());
            buffer.put_slice(&self.behind[..length]);
        } else {
            ready!(Pin::new(stream).poll_read(context, buffer))?;
        }
        let new = &buffer.filled()[before..];
        if !new.is_empty() {
            let passed = self.seen.lock().pass(new);
            if is_behind {
                self.behind.advance(passed);
            } else {
                self.behind.extend_from_slice(&new[passed..]);
            }
            buffer.set_filled(before + passed);
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::{Framing, Seen};

    /// Whether each head is faulty, in a stream that comes in pieces of so many bytes, with the bodies' lengths.
    fn wrong(stream: &[u8], piece: usize, bodies: &[u64]) -> Vec<bool> {
        let (mut seen, mut wrong, mut left) = (Seen::default(), Vec::new(), stream);
        let mut bodies = bodies.iter();
        while !left.is_empty() {
            let passed = seen.pass(&left[..piece.min(left.len())]);
            assert!(passed > 0);
            left = &left[passed..];
            if seen.position == super::Position::Asked {
                let length = *bodies.next().expect("as many bodies as heads");
                wrong.push(seen.take(Framing::Length(length)).is_some());
            }
        }
        wrong
    }

    #[test]
    fn heads_that_may_be_understood_in_two_ways_are_found_whatever_comes_in_one_piece() {
        let stream = b"\r\nPOST / HTTP/1.1\r\nContent-Length: 4\r\nX: y\r\n\r\n\n\n\n\nGET / HTTP/1.1\r\n\r\n\
            POST / HTTP/1.1\r\nContent-Length: 1\r\nCONTENT-LENGTH: 1\r\n\r\nxGET / HTTP/1.1\nHost: x\n\n\
            GET / HTTP/1.1\r\nContent-Lengths: 1\r\nContent-Length : 1\r\nContent-Length: 0\r\n\r\n";
        for piece in 1..stream.len() {
            let found = wrong(stream, piece, &[4, 0, 1, 0, 0]);
            assert_eq!(found, [false, false, true, true, false], "{piece}");
        }
    }

    #[test]
    fn what_follows_chunks_is_looked_at_when_their_end_is_told() {
        let mut seen = Seen::default();
        let head = b"GET / HTTP/1.1\n\n";
        assert!(!seen.is_within_head());
        assert_eq!(seen.pass(b"POST"), 4);
        assert!(seen.is_within_head());
        assert_eq!(seen.pass(b" / HTTP/1.1\r\n\r\n5"), 15);
        assert!(!seen.is_within_head());
        assert!(seen.take(Framing::Chunked).is_none());
        assert_eq!(seen.pass(b"5\n\n\n\n\n\r\n0\r\n\r\n"), 13);
        seen.end();
        assert_eq!(seen.pass(head), head.len());
        assert!(seen.take(Framing::Length(0)).is_some());
        // A client that does not wait for an answer is served, but nobody knows where its heads begin.
        assert_eq!(seen.pass(b"POST / HTTP/1.1\r\n\r\n"), 19);
        assert!(seen.take(Framing::Chunked).is_none());
        assert_eq!(seen.pass(b"0\r\n\r\nGET / HTTP/1.1\n\n"), 21);
        assert!(seen.take(Framing::Length(0)).is_none());
        seen.end();
        assert_eq!(seen.pass(head), head.len());
        assert!(seen.take(Framing::Length(0)).is_none());
    }
}
