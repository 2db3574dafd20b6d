//! Requests and responses of a connection on their way between hyper and the router. Each request carries its connection's data,
//! and the connection's place learns when a request is whole and when it is answered.

use super::heads::{Framing, Seen};
use crate::guard::{Exchange, Met, OpenConnection};
use axum::Router;
use axum::body::Body;
use axum::http::header;
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

/// A router that serves one connection.
pub(crate) struct Served {
    router: Router,
    met: Met,
    connected: Arc<OpenConnection>,
    seen: Arc<Mutex<Seen>>,
}

/// The fault in a request's head that hyper accepts.
#[derive(Clone, Copy)]
pub(crate) struct Ambiguous(pub(crate) &'static str);

impl Served {
    pub(crate) fn new(
        router: Router,
        met: Met,
        connected: &Arc<OpenConnection>,
        seen: Arc<Mutex<Seen>>,
    ) -> Self {
        Self { router, met, connected: Arc::clone(connected), seen }
    }
}

impl Service<Request<Incoming>> for Served {
    type Response = Response<Tracked<Body>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let exchange = Exchange::begin(&self.connected);
        // hyper takes a body for what this header says (RFC 9112, 6.3).
        let framing = match request.headers().contains_key(header::TRANSFER_ENCODING) {
            true => Framing::Chunked,
            false => Framing::Length(http_body::Body::size_hint(request.body()).lower()),
        };
        let wrong = self.seen.lock().take(framing);
        let mut request = request.map(|body| {
            let (exchange, seen) = (Arc::clone(&exchange), Some(Arc::clone(&self.seen)));
            let body = Tracked { body, exchange, request: seen };
            body.look();
            Body::new(body)
        });
        request.extensions_mut().insert(self.met.clone());
        if let Some(wrong) = wrong {
            request.extensions_mut().insert(Ambiguous(wrong));
        }
        // A router is always ready.
        let answer = self.router.clone().call(request);
        Box::pin(async move {
            let response = answer.await?;
            Ok(response.map(|body| Tracked { body, exchange, request: None }))
        })
    }
}

/// A body that belongs to an exchange.
pub(crate) struct Tracked<B> {
    body: B,
    exchange: Arc<Exchange>,
    /// For a request's body, the connection's requests seen so far.
    request: Option<Arc<Mutex<Seen>>>,
}

impl<B: http_body::Body> Tracked<B> {
    /// Reports the end of a request.
    fn look(&self) {
        if self.body.is_end_stream() {
            self.end();
        }
    }

    fn end(&self) {
        if let Some(seen) = &self.request {
            self.exchange.is_whole();
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
