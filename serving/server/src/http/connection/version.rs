//! Which version of HTTP a client speaks that nobody has asked: its first bytes say it.

use bytes::{Buf, Bytes, BytesMut};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};

/// The first bytes of a client of HTTP/2 (RFC 9113, 3.4). No request of HTTP/1.1 begins so.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Reads until the version is known: whether it is HTTP/2, and what was read.
pub(crate) async fn look<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<(bool, Bytes)> {
    let mut begin = BytesMut::with_capacity(8 << 10);
    loop {
        if stream.read_buf(&mut begin).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let compared = begin.len().min(PREFACE.len());
        let is_same = begin[..compared] == PREFACE[..compared];
        if !is_same || compared == PREFACE.len() {
            return Ok((is_same, begin.freeze()));
        }
    }
}

/// A stream of which the begin was read already.
pub(crate) struct Rewound<S> {
    begin: Bytes,
    stream: S,
}

impl<S> Rewound<S> {
    pub(crate) fn new(begin: Bytes, stream: S) -> Self {
        Self { begin, stream }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Rewound<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.begin.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let length = self.begin.len().min(buffer.remaining());
        buffer.put_slice(&self.begin[..length]);
        self.begin.advance(length);
        if self.begin.is_empty() {
            // It keeps no buffer of the first read.
            self.begin = Bytes::new();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Rewound<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(bytes: &[u8]) -> Option<(bool, Vec<u8>)> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut stream = bytes;
            let (is_2, begin) = look(&mut stream).await.ok()?;
            let mut all = Vec::new();
            Rewound::new(begin, stream).read_to_end(&mut all).await.ok()?;
            Some((is_2, all))
        })
    }

    #[test]
    fn the_first_bytes_say_the_version_and_none_is_lost() {
        let second = [PREFACE, b"more"].concat();
        assert_eq!(looked(&second), Some((true, second)));
        for first in [&b"PUT / HTTP/1.1\r\n"[..], b"PRI / HTTP/1.1\r\n\r\n", b"\x16"] {
            assert_eq!(looked(first), Some((false, first.to_vec())));
        }
        assert_eq!(looked(b""), None);
    }
}
