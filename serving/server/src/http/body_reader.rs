//! Reads a request's body, within its limits.

use super::problem::Problem;
use super::{Limits, compression};
use crate::guard::{Account, Charge, Pace};
use crate::service::blocking_if_large;
use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use bytes::{Buf, Bytes, BytesMut};
use http_body::{Body as _, Frame};
use std::future::poll_fn;
use std::pin::Pin;
use tokio::time::{Instant, timeout};

/// The rest of a request's body.
pub(crate) struct Reader {
    body: Body,
    /// Bytes received but not read.
    piece: Bytes,
    /// Bytes that may still be received.
    left: usize,
    limit: usize,
    deadline: Instant,
    pace: Pace,
    charge: Charge,
}

impl Reader {
    /// Of a body as it comes.
    pub(crate) fn new(body: Body, limits: &Limits, account: &Account) -> Result<Self, Problem> {
        let limit = limits.max_input_size;
        let size = body.size_hint().lower();
        if size > limit as u64 {
            return Err(Problem::too_large(&format!("request size of {size} bytes"), limit));
        }
        account.fits(size)?;
        let deadline = Instant::now() + limits.body_timeout;
        let pace = Pace::new(limits.min_body_rate, limits.body_patience);
        let charge = account.charge();
        Ok(Self { body, piece: Bytes::new(), left: limit, limit, deadline, pace, charge })
    }

    /// Of a body that a request's headers describe: decompressed, if they say that it is compressed.
    pub(crate) async fn decoded(
        body: Body,
        headers: &HeaderMap,
        limits: &Limits,
        account: &Account,
    ) -> Result<Self, Problem> {
        let mut reader = Self::new(body, limits, account)?;
        if let Some(encoding) = compression::of_request(headers)? {
            let compressed = reader.rest().await?.freeze();
            let limit = reader.limit;
            let size = compressed.len();
            let mut charge = account.charge();
            let plain = blocking_if_large(size, move || {
                let plain = compression::decompress(encoding, &compressed, limit, &mut charge);
                plain.map(|plain| (plain, charge))
            });
            // The compressed bytes are gone, and so is their charge.
            (reader.piece, reader.charge) = plain.await?;
        }
        Ok(reader)
    }

    /// Bytes of the body, if they are known.
    pub(crate) fn size(&self) -> Option<usize> {
        let coming = self.body.size_hint().exact()?;
        usize::try_from(coming).ok().map(|coming| coming.saturating_add(self.piece.len()))
    }

    /// Waits for a piece, unless one is there. False at the end.
    async fn fill(&mut self) -> Result<bool, Problem> {
        while self.piece.is_empty() {
            let Some(frame) = self.next().await? else { return Ok(false) };
            // Trailers say nothing to us.
            let Ok(piece) = frame.into_data() else { continue };
            self.left = self
                .left
                .checked_sub(piece.len())
                .ok_or_else(|| Problem::too_large("the request", self.limit))?;
            self.charge.grow(piece.len())?;
            self.piece = piece;
        }
        Ok(true)
    }

    /// Waits for the body's next frame, as long as that may take. `None` at the end.
    async fn next(&mut self) -> Result<Option<Frame<Bytes>>, Problem> {
        let late = |words| Problem::new(StatusCode::REQUEST_TIMEOUT, words);
        loop {
            let began = Instant::now();
            let left = self.pace.left().min(self.deadline.saturating_duration_since(began));
            let next = poll_fn(|context| Pin::new(&mut self.body).poll_frame(context));
            let came = match timeout(left, next).await {
                Ok(None) => return Ok(None),
                Ok(Some(frame)) => Some(frame.map_err(|error| {
                    Problem::bad(format!("reading the request's body: {error}"))
                })?),
                Err(_) => None,
            };
            let bytes = came.as_ref().and_then(Frame::data_ref).map_or(0, Bytes::len);
            if !self.pace.waited(began.elapsed(), bytes) {
                return Err(late("the request's body comes too slowly"));
            }
            if came.is_some() {
                return Ok(came);
            }
            if Instant::now() >= self.deadline {
                return Err(late("the request's body has not come in time"));
            }
        }
    }

    /// As many bytes, in memory of their own.
    ///
    /// # Errors
    ///
    /// [`Short`] if there are fewer.
    pub(crate) async fn take(&mut self, size: usize) -> Result<Result<BytesMut, Short>, Problem> {
        if size.saturating_sub(self.piece.len()) > self.left {
            return Err(Problem::too_large(&format!("input of {size} bytes"), self.limit));
        }
        let mut taken = BytesMut::with_capacity(size);
        while taken.len() < size {
            if !self.fill().await? {
                return Ok(Err(Short { missing: size - taken.len() }));
            }
            let wanted = (size - taken.len()).min(self.piece.len());
            taken.extend_from_slice(&self.piece[..wanted]);
            self.piece.advance(wanted);
        }
        Ok(Ok(taken))
    }

    /// All that is left.
    pub(crate) async fn rest(&mut self) -> Result<BytesMut, Problem> {
        let mut rest = BytesMut::with_capacity(self.size().unwrap_or_default());
        while self.fill().await? {
            rest.extend_from_slice(&std::mem::take(&mut self.piece));
        }
        Ok(rest)
    }

    /// The request's charge.
    pub(crate) fn into_charge(self) -> Charge {
        self.charge
    }

    /// Charges memory made from a request, besides the bytes of its body.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), Problem> {
        Ok(self.charge.grow(bytes)?)
    }

    /// Whether nothing is left.
    pub(crate) async fn is_over(&mut self) -> Result<bool, Problem> {
        Ok(!self.fill().await?)
    }
}

/// The body ends too early.
pub(crate) struct Short {
    pub(crate) missing: usize,
}
