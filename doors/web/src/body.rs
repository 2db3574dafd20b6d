//! Bodies of requests on their way to the application: small ones whole, others in pieces as the application reads them.

use crate::exchange::{BodyFault, Pieces, WAITING};
use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame};
use hydrozoa_server::Pace;
use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

/// Bytes of a body that the server waits for before the application gets the request. A worker's thread does not wait for a slow
/// client then.
const SMALL: usize = 64 << 10;

/// Bytes a second that a body must reach in any [`PATIENCE`] of waiting.
const RATE: usize = 1024;

const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes that are read and dropped after an application has answered without them, so that its client reads the answer. One that
/// sends more sees its connection end.
const UNWANTED: usize = 16 << 20;

/// A request's body.
pub(crate) enum Received {
    Whole(Bytes),
    Pieces(Pieces),
}

/// Waits for a small body, or for the begin of a larger one. The rest comes as it is read.
pub(crate) async fn receive(mut body: Body) -> Result<Received, BodyFault> {
    if body.is_end_stream() {
        return Ok(Received::Whole(Bytes::new()));
    }
    let mut pace = Pace::new(RATE, PATIENCE);
    let mut begin = BytesMut::new();
    if body.size_hint().lower() <= SMALL as u64 {
        while begin.len() <= SMALL {
            match next(&mut body, &mut pace).await? {
                // A small body comes in one piece most often.
                Some(piece) if begin.is_empty() && body.is_end_stream() => {
                    return Ok(Received::Whole(piece));
                }
                Some(piece) => begin.extend_from_slice(&piece),
                None => return Ok(Received::Whole(begin.freeze())),
            }
            if body.is_end_stream() {
                return Ok(Received::Whole(begin.freeze()));
            }
        }
    }
    let (sender, pieces) = mpsc::channel(WAITING);
    tokio::spawn(pump(body, pace, begin.freeze(), sender));
    Ok(Received::Pieces(pieces))
}

/// Hands a body on as its reader has room.
async fn pump(
    mut body: Body,
    mut pace: Pace,
    begin: Bytes,
    sender: mpsc::Sender<Result<Bytes, BodyFault>>,
) {
    let mut is_read = begin.is_empty() || sender.send(Ok(begin)).await.is_ok();
    let mut unwanted = UNWANTED;
    loop {
        let piece = match next(&mut body, &mut pace).await {
            Ok(Some(piece)) => piece,
            Ok(None) => return,
            Err(fault) => return drop(sender.send(Err(fault)).await),
        };
        if is_read {
            is_read = sender.send(Ok(piece)).await.is_ok();
            continue;
        }
        match unwanted.checked_sub(piece.len()) {
            Some(left) => unwanted = left,
            None => return,
        }
    }
}

/// The next bytes of a body; `None` at its end.
async fn next(body: &mut Body, pace: &mut Pace) -> Result<Option<Bytes>, BodyFault> {
    loop {
        let began = Instant::now();
        let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
        let came = timeout(pace.left(), frame).await;
        let frame = match came {
            Ok(None) => return Ok(None),
            Ok(Some(frame)) => Some(frame.map_err(|_| BodyFault::Broken)?),
            Err(_) => None,
        };
        let length = frame.as_ref().and_then(Frame::data_ref).map_or(0, Bytes::len);
        if !pace.waited(began.elapsed(), length) {
            return Err(BodyFault::Slow);
        }
        // Trailers are not handed on: neither interface has a place for them.
        if let Some(data) = frame.and_then(|frame| frame.into_data().ok())
            && !data.is_empty()
        {
            return Ok(Some(data));
        }
    }
}
