//! Bodies of responses.

use axum::body::Body;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Pieces that are sent one after the other, each from where it lies.
pub(crate) struct Pieces(VecDeque<Bytes>);

impl Pieces {
    pub(crate) fn body(pieces: Vec<Bytes>) -> Body {
        Body::new(Self(pieces.into_iter().filter(|piece| !piece.is_empty()).collect()))
    }
}

impl http_body::Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.iter().map(|piece| piece.len() as u64).sum())
    }
}
