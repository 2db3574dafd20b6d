//! The body of a call as it comes: its bytes are charged, and a message that was begun must come on.

use super::status::exhausted;
use crate::guard::{Charge, Exchange, Pace};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, Sleep};
use tonic::Status;
use tonic::body::Body;

/// The bytes charged for a call's messages that nobody has taken yet.
#[derive(Clone)]
pub(super) struct Held(Arc<Mutex<HeldBytes>>);

struct HeldBytes {
    charge: Charge,
    /// Bytes of messages that are whole, in their order.
    whole: VecDeque<usize>,
}

impl Held {
    pub(super) fn new(charge: Charge) -> Self {
        Self(Arc::new(Mutex::new(HeldBytes { charge, whole: VecDeque::new() })))
    }

    /// The charge of the next message, which has so many bytes now. On its way it may have been compressed, and smaller.
    pub(super) fn take(&self, bytes: usize) -> Result<Charge, Status> {
        let mut state = self.0.lock();
        let came = state.whole.pop_front().unwrap_or_default();
        let mut charge = state.charge.split(came);
        charge.grow_to(bytes).map_err(exhausted)?;
        Ok(charge)
    }
}

/// A call's body.
pub(super) struct Arriving {
    pub(super) body: Body,
    pub(super) held: Held,
    pub(super) exchange: Option<Arc<Exchange>>,
    pub(super) within: Within,
    pub(super) pace: Pace,
    /// Since when it is waited for more, and for how long it may be.
    pub(super) waits: Option<(Instant, Pin<Box<Sleep>>)>,
}

/// The body's position in a message. A message begins with a byte of flags and four bytes of length (gRPC over HTTP2,
/// Length-Prefixed-Message).
pub(super) struct Within {
    /// Whether the client may send any number of messages, and be silent between them.
    is_stream: bool,
    prefix: [u8; 5],
    seen: usize,
    left: usize,
}

impl Within {
    pub(super) fn new(is_stream: bool) -> Self {
        Self { is_stream, prefix: [0; 5], seen: 0, left: 0 }
    }

    /// So many bytes have come. `whole` gets the bytes of each message that ends in them.
    fn advance(&mut self, mut data: &[u8], mut whole: impl FnMut(usize)) {
        while let [first, rest @ ..] = data {
            if self.seen < self.prefix.len() {
                self.prefix[self.seen] = *first;
                (self.seen, data) = (self.seen + 1, rest);
                let [_, length @ ..] = self.prefix;
                self.left = u32::from_be_bytes(length) as usize;
            } else {
                let passed = self.left.min(data.len());
                (self.left, data) = (self.left - passed, &data[passed..]);
            }
            if self.seen == self.prefix.len() && self.left == 0 {
                let [_, length @ ..] = self.prefix;
                whole(self.seen + u32::from_be_bytes(length) as usize);
                self.seen = 0;
            }
        }
    }

    /// Whether the client owes something. A streaming client may be silent between messages.
    fn is_owed(&self) -> bool {
        !self.is_stream || self.seen > 0
    }
}

impl Arriving {
    /// Notes the wait and the bytes that came. False if the client is too slow.
    fn is_fast(&mut self, bytes: usize) -> bool {
        let time = self.waits.take().map_or(Duration::ZERO, |(since, _)| since.elapsed());
        self.pace.waited(time, bytes)
    }
}

impl http_body::Body for Arriving {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let slow = || Status::deadline_exceeded("the request's message comes too slowly");
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) else {
            if !self.within.is_owed() {
                self.waits = None;
                return Poll::Pending;
            }
            loop {
                let left = self.pace.left();
                let began = || (Instant::now(), Box::pin(tokio::time::sleep(left)));
                ready!(self.waits.get_or_insert_with(began).1.as_mut().poll(context));
                if !self.is_fast(0) {
                    return Poll::Ready(Some(Err(slow())));
                }
            }
        };
        let bytes = match &frame {
            Some(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
            _ => 0,
        };
        let is_fast = self.is_fast(bytes);
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            if !is_fast {
                return Poll::Ready(Some(Err(slow())));
            }
            let held = self.held.clone();
            let mut state = held.0.lock();
            state.charge.grow(data.len()).map_err(exhausted)?;
            self.within.advance(data, |bytes| state.whole.push_back(bytes));
        }
        if let Some(exchange) = &self.exchange
            && (frame.is_none() || self.body.is_end_stream())
        {
            exchange.is_whole();
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a call's response, which belongs to the exchange, too.
pub(super) struct Leaving {
    pub(super) body: Body,
    pub(super) _exchange: Option<Arc<Exchange>>,
}

impl http_body::Body for Leaving {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::Within;

    #[test]
    fn a_client_owes_what_it_has_begun() {
        let mut stream = Within::new(true);
        let mut owes = |data: &[u8]| {
            let mut whole = Vec::new();
            stream.advance(data, |bytes| whole.push(bytes));
            (stream.is_owed(), whole)
        };
        assert_eq!(owes(&[]), (false, vec![]));
        assert_eq!(owes(&[0, 0]), (true, vec![]));
        assert_eq!(owes(&[0, 0, 3]), (true, vec![]));
        assert_eq!(owes(&[1, 2]), (true, vec![]));
        assert_eq!(owes(&[3]), (false, vec![8]));
        assert_eq!(owes(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 7]), (false, vec![5, 6]));
        assert_eq!(owes(&[0, 0, 0, 1, 0]), (true, vec![]));
        assert!(Within::new(false).is_owed());
    }
}
