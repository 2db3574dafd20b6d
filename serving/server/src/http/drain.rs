//! Reads the rest of a request's body that an endpoint left unread.
//!
//! Many clients send a whole request before they read the response. If the server closed the connection meanwhile, they
//! would see a reset instead of the error in their request.

use super::Limits;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long a client may take to send the unwanted rest.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs an endpoint, and reads the rest of the request's body while the response is sent. A client that waits for the response first
/// gets it at once.
pub(crate) async fn drain(
    State(limits): State<Arc<Limits>>,
    request: Request,
    next: Next,
) -> Response {
    // Such a client sends the body only when it is asked to.
    let waits = request.headers().contains_key(header::EXPECT);
    let (sender, left) = oneshot::channel();
    let request = request.map(|body| {
        Body::new(Borrowed { body: Some(body), was_read: !waits, sender: Some(sender) })
    });
    let response = next.run(request).await;
    let Ok(mut body) = left.await else { return response };
    if response.status() == StatusCode::REQUEST_TIMEOUT {
        return response;
    }
    let patience = PATIENCE.min(limits.body_timeout);
    let all = async move {
        let mut most = limits.max_input_size.saturating_mul(2);
        while let Some(Ok(frame)) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await
        {
            let length = frame.data_ref().map_or(0, Bytes::len);
            let Some(rest) = most.checked_sub(length) else { break };
            most = rest;
        }
    };
    // Then the body is dropped, and hyper closes the connection.
    tokio::spawn(async move { drop(timeout(patience, all).await) });
    response
}

/// A body that comes back if it is dropped before its end.
struct Borrowed {
    body: Option<Body>,
    was_read: bool,
    sender: Option<oneshot::Sender<Body>>,
}

impl http_body::Body for Borrowed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.was_read = true;
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map(Body::size_hint).unwrap_or_default()
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let body = self.body.take().filter(|body| self.was_read && !body.is_end_stream());
        if let (Some(body), Some(sender)) = (body, self.sender.take()) {
            // The request may be gone.
            drop(sender.send(body));
        }
    }
}
