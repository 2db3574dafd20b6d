//! Requests on their way from a connection to a worker, and the responses back.

use crate::access_log::{AccessLog, Record};
use crate::addressed;
use crate::body::{self, Received};
use crate::exchange::{BodyFault, Exchange, LeftGuard};
use crate::figures::Figures;
use crate::fleet::{Fleet, Refusal};
use crate::forwarded::Scheme;
use crate::request::{Asked, ListenerPlace};
use crate::response::{Head, Reply, ResponseBody, Watch};
use crate::settings::Interface;
use crate::websocket::{self, Decision};
use axum::body::Body;
use bytes::Bytes;
use hydrozoa_server::Met;
use hydrozoa_server::http::{Respond, ambiguity};
use hyper::header::{CONNECTION, EXPECT, HeaderValue, RETRY_AFTER};
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode, Version};
use std::sync::Arc;
use tokio::time::{Instant, timeout_at};

/// Answers the requests of a listener by an application.
#[derive(Clone)]
pub struct Service(Arc<Shared>);

struct Shared {
    fleet: Arc<Fleet>,
    figures: Arc<Figures>,
    place: ListenerPlace,
    log: Option<AccessLog>,
}

/// The values that a response keeps until it has left.
struct UnderWay {
    _left: Option<LeftGuard>,
    record: Option<Record>,
}

impl Watch for UnderWay {
    fn sent(&mut self, bytes: usize) {
        if let Some(record) = &mut self.record {
            record.sent(bytes);
        }
    }
}

impl Respond for Service {
    type Body = ResponseBody;

    fn respond(
        &self,
        request: Request<Body>,
    ) -> impl Future<Output = Response<ResponseBody>> + Send + 'static {
        let service = self.clone();
        async move { service.answer(request).await }
    }
}

impl Service {
    pub(crate) fn new(
        fleet: Arc<Fleet>,
        figures: Arc<Figures>,
        place: ListenerPlace,
        log: Option<AccessLog>,
    ) -> Self {
        Self(Arc::new(Shared { fleet, figures, place, log }))
    }

    async fn answer(&self, request: Request<Body>) -> Response<ResponseBody> {
        let shared = &*self.0;
        let wrong = self.wrong(&request);
        let (parts, body) = request.into_parts();
        let met = parts.extensions.get::<Met>();
        let (local, peer) = (met.and_then(Met::local), met.and_then(Met::peer));
        let scheme = if shared.place.has_tls { Scheme::Https } else { Scheme::Http };
        let proxies = &shared.fleet.context.settings.proxies;
        let (client, scheme) = proxies.client(peer, scheme, &parts.headers);
        let mut record = shared.log.as_ref().map(|log| Record::new(log, &parts, client));
        let is_old = parts.version < Version::HTTP_2;
        let asked = Asked { parts, local, client, scheme };
        let (reply, left, closes) = match (wrong, self.socket_key(&asked)) {
            (Some(status), _) | (None, Some(Err(status))) => (Reply::problem(status), None, true),
            (None, Some(Ok(key))) => self.ask_for_socket(asked, &key).await,
            (None, None) => self.ask(asked, body).await,
        };
        shared.figures.count(reply.head.status);
        if let Some(record) = &mut record {
            record.status = Some(reply.head.status);
        }
        let body = reply.body.watched(UnderWay { _left: left, record });
        let mut response = Response::new(body);
        *response.status_mut() = reply.head.status;
        *response.headers_mut() = reply.head.headers;
        if closes && is_old {
            // Where its end is not certain, nor is the next one's begin.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }

    /// Why a request is refused before anything else is looked at.
    fn wrong(&self, request: &Request<Body>) -> Option<StatusCode> {
        if let Some(words) = ambiguity(request, &[]) {
            tracing::debug!("a request is refused: {words}");
            return Some(StatusCode::BAD_REQUEST);
        }
        if addressed::is_wrong(request) {
            return Some(StatusCode::BAD_REQUEST);
        }
        let expected = request.headers().get(EXPECT).map(HeaderValue::as_bytes);
        if expected.is_some_and(|expected| !expected.eq_ignore_ascii_case(b"100-continue")) {
            return Some(StatusCode::EXPECTATION_FAILED);
        }
        if request.method() == Method::CONNECT {
            return Some(StatusCode::NOT_IMPLEMENTED);
        }
        let met = request.extensions().get::<Met>();
        met.is_some_and(Met::is_reserved).then_some(StatusCode::SERVICE_UNAVAILABLE)
    }

    /// The key of a client that asks for a WebSocket. For an application of WSGI it is a request as others are.
    fn socket_key(&self, asked: &Asked) -> Option<Result<String, StatusCode>> {
        let has_sockets = self.0.fleet.interface == Interface::Asgi;
        has_sockets.then(|| websocket::asked(&asked.parts)).flatten()
    }

    /// The same as [`Service::ask`] for a WebSocket.
    async fn ask_for_socket(
        &self,
        mut asked: Asked,
        key: &str,
    ) -> (Reply, Option<LeftGuard>, bool) {
        let upgrade = asked.parts.extensions.remove::<OnUpgrade>();
        let (socket, mut connection) = websocket::pair();
        let (exchange, mut reply) = Exchange::of_socket(socket);
        let left = LeftGuard(Arc::clone(&exchange));
        if !self.dispatch(&exchange, &asked, None).await {
            return (Reply::problem(StatusCode::SERVICE_UNAVAILABLE), None, true);
        }
        let decision = tokio::select! {
            biased;
            decision = &mut connection.decision => decision,
            Ok(reply) = &mut reply => return (reply, Some(left), false),
        };
        match (decision, upgrade) {
            (Ok(Decision::Accept(further)), Some(upgrade)) => {
                let compression = websocket::compression(&asked.parts.headers);
                let headers = websocket::accepting(key, compression.as_deref(), further);
                tokio::spawn(connection.serve(upgrade, compression));
                let head = Head { status: StatusCode::SWITCHING_PROTOCOLS, headers };
                (Reply { head, body: ResponseBody::whole(Bytes::new()) }, None, false)
            }
            // An application that has ended may have responded just before.
            (Ok(Decision::Reject(status)), _) => match reply.try_recv() {
                Ok(reply) => (reply, Some(left), false),
                Err(_) => (Reply::problem(status), None, false),
            },
            _ => (Reply::problem(StatusCode::BAD_GATEWAY), None, true),
        }
    }

    /// Hands a request to a worker. False if there is no room for it.
    async fn dispatch(&self, exchange: &Arc<Exchange>, asked: &Asked, body: Option<Bytes>) -> bool {
        let Shared { fleet, place, figures, .. } = &*self.0;
        let deadline = Instant::now() + fleet.context.settings.graceful_timeout;
        loop {
            // Before the look: the next worker may come right behind it.
            let ready_again = fleet.ready_again();
            match fleet.dispatch(exchange, asked, place, body.clone()) {
                Ok(()) => return true,
                Err(Refusal::NoneReady) if timeout_at(deadline, ready_again).await.is_ok() => {}
                Err(Refusal::Full | Refusal::NoneReady) => {
                    figures.refuse();
                    return false;
                }
            }
        }
    }

    /// The application's response, what notes that the client has left, and whether the connection must end.
    async fn ask(&self, asked: Asked, body: Body) -> (Reply, Option<LeftGuard>, bool) {
        let (pieces, whole) = match body::receive(body).await {
            Ok(Received::Whole(whole)) => (None, Some(whole)),
            Ok(Received::Pieces(pieces)) => (Some(pieces), None),
            Err(BodyFault::Slow) => {
                return (Reply::problem(StatusCode::REQUEST_TIMEOUT), None, true);
            }
            Err(BodyFault::Broken) => return (Reply::problem(StatusCode::BAD_REQUEST), None, true),
        };
        let (exchange, reply) = Exchange::new(pieces, asked.is_head());
        // Dropped too if the client goes before there is a response.
        let left = LeftGuard(Arc::clone(&exchange));
        if !self.dispatch(&exchange, &asked, whole).await {
            let mut reply = Reply::problem(StatusCode::SERVICE_UNAVAILABLE);
            reply.head.headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            return (reply, Some(left), false);
        }
        // Its sender is gone only if the worker is.
        let reply = reply.await.unwrap_or_else(|_| Reply::problem(StatusCode::BAD_GATEWAY));
        (reply, Some(left), false)
    }
}
