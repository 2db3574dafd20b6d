//! Requests and responses of a connection on their way between hyper and what answers them. Each request carries its connection's data,
//! and the connection's place learns when a request is whole and when it is answered.

use super::heads::{Framing, Seen};
use crate::guard::{Exchange, Met, OpenConnection};
use axum::body::Body;
use axum::http::header;
use axum::{BoxError, Router};
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper::{Request, Response};
use parking_lot::Mutex;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tonic::codegen::Service as _;

/// A service that answers requests: a router, or a program's own.
pub trait Respond: Clone + Send + Sync + 'static {
    /// A response's body.
    type Body: http_body::Body<Data = Bytes, Error: Into<BoxError>> + Unpin + Send + 'static;

    /// Answers a request. Its extensions have the connection's [`Met`], and hyper's upgrade if the client asks for one.
    fn respond(
        &self,
        request: Request<Body>,
    ) -> impl Future<Output = Response<Self::Body>> + Send + 'static;
}

impl Respond for Router {
    type Body = Body;

    fn respond(
        &self,
        request: Request<Body>,
    ) -> impl Future<Output = Response<Body>> + Send + 'static {
        // A router is always ready.
        let answer = self.clone().call(request);
        async move { answer.await.unwrap_or_else(|never| match never {}) }
    }
}

/// A service on one connection.
pub(crate) struct Served<S> {
    service: S,
    met: Met,
    connected: Arc<OpenConnection>,
    /// The requests' heads as they were seen; HTTP/2 has none that could be understood in two ways.
    seen: Option<Arc<Mutex<Seen>>>,
}

/// The fault in a request's head that hyper accepts.
#[derive(Clone, Copy)]
pub(crate) struct Ambiguous(pub(crate) &'static str);

impl<S> Served<S> {
    pub(crate) fn new(
        service: S,
        met: Met,
        connected: &Arc<OpenConnection>,
        seen: Option<Arc<Mutex<Seen>>>,
    ) -> Self {
        Self { service, met, connected: Arc::clone(connected), seen }
    }
}

impl<S: Respond> Service<Request<Incoming>> for Served<S> {
    type Response = Response<Tracked<S::Body>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let exchange = Exchange::begin(&self.connected);
        // hyper takes a body for what this header says (RFC 9112, 6.3).
        let framing = match request.headers().contains_key(header::TRANSFER_ENCODING) {
            true => Framing::Chunked,
            false => Framing::Length(http_body::Body::size_hint(request.body()).lower()),
        };
        let wrong = self.seen.as_ref().and_then(|seen| seen.lock().take(framing));
        let mut request = request.map(|body| {
            let (exchange, seen) = (Arc::clone(&exchange), self.seen.clone());
            let body = Tracked { body, exchange, is_request: true, seen };
            body.look();
            Body::new(body)
        });
        request.extensions_mut().insert(self.met.clone());
        if let Some(wrong) = wrong {
            request.extensions_mut().insert(Ambiguous(wrong));
        }
        let answer = self.service.respond(request);
        Box::pin(async move {
            let response = answer.await;
            Ok(response.map(|body| Tracked { body, exchange, is_request: false, seen: None }))
        })
    }
}

/// A body that belongs to an exchange.
pub(crate) struct Tracked<B> {
    body: B,
    exchange: Arc<Exchange>,
    is_request: bool,
    /// For a request's body, the connection's requests seen so far.
    seen: Option<Arc<Mutex<Seen>>>,
}

impl<B: http_body::Body> Tracked<B> {
    /// Reports the end of a request.
    fn look(&self) {
        if self.body.is_end_stream() {
            self.end();
        }
    }

    fn end(&self) {
        if self.is_request {
            self.exchange.is_whole();
        }
        if let Some(seen) = &self.seen {
            seen.lock().end();
        }
    }
}

impl<B: http_body::Body<Data = Bytes> + Unpin> http_body::Body for Tracked<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        match &frame {
            Poll::Ready(None) => self.end(),
            Poll::Ready(Some(_)) => self.look(),
            _ => {}
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
