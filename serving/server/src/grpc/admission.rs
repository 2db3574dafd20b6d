//! Admission of calls. A call is refused before its message is read if it names another host, comes from a page of another site,
//! lacks a token, or exceeds the number allowed.

use super::Options;
use super::body::{Arriving, Held, Leaving, Within};
use super::connections::Info;
use super::life::Life;
use crate::guard::{Authority, Exchange, Pace, foreign};
use crate::service;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service, http};
use tonic::server::NamedService;

/// Counts what is under way.
pub(super) struct Admission {
    /// The service counts inferences of all protocols, and has their limit.
    service: service::Service,
    /// Those of this protocol.
    requests: Limit,
    streams: Limit,
}

struct Limit {
    places: Arc<Semaphore>,
    most: u32,
    name: &'static str,
}

/// One place. It is free again when the last copy is dropped.
#[derive(Clone)]
pub(super) struct Permit(#[expect(dead_code, reason = "it is held")] Arc<Places>);

type Places = (OwnedSemaphorePermit, Option<service::Permit>);

impl Limit {
    fn new(most: u32, name: &'static str) -> Self {
        Self { places: Arc::new(Semaphore::new(most as usize)), most, name }
    }

    fn enter(&self) -> Result<OwnedSemaphorePermit, Status> {
        self.places.clone().try_acquire_owned().map_err(|_| {
            Status::resource_exhausted(format!(
                "the server has {} {} under way, as many as it may; try again later",
                self.most, self.name
            ))
        })
    }

    /// Waits until all places are free.
    async fn idle(&self) {
        // Nobody closes the semaphore.
        drop(self.places.acquire_many(self.most).await);
    }
}

impl Admission {
    pub(super) fn new(service: &service::Service, options: &Options) -> Self {
        let most = service.settings().max_requests.clamp(1, Semaphore::MAX_PERMITS);
        Self {
            service: service.clone(),
            requests: Limit::new(u32::try_from(most).unwrap_or(u32::MAX), "inferences"),
            streams: Limit::new(options.max_streams, "streams"),
        }
    }

    /// A place for an inference, if one is free.
    pub(super) fn request(&self) -> Result<Permit, Status> {
        let own = self.requests.enter()?;
        let shared = self.service.admit();
        let shared = shared.map_err(|failure| Status::resource_exhausted(failure.message))?;
        Ok(Permit(Arc::new((own, Some(shared)))))
    }

    /// A place for a stream, if one is free.
    fn stream(&self) -> Result<Permit, Status> {
        Ok(Permit(Arc::new((self.streams.enter()?, None))))
    }

    /// Waits until nothing is under way.
    pub(super) async fn idle(&self) {
        self.streams.idle().await;
        self.requests.idle().await;
    }
}

/// A service whose inferences and streams are counted. Each gets its [`Permit`] as an extension.
#[derive(Clone)]
pub(super) struct Limited<S> {
    inner: S,
    admission: Arc<Admission>,
    life: Life,
    options: Arc<Options>,
}

impl<S> Limited<S> {
    pub(super) fn new(
        inner: S,
        admission: &Arc<Admission>,
        life: &Life,
        options: &Arc<Options>,
    ) -> Self {
        let (admission, options) = (admission.clone(), options.clone());
        Self { inner, admission, life: life.clone(), options }
    }

    /// A place for an inference or a stream. A client without a token is refused, if the server requires one.
    fn check(&self, request: &http::Request<Body>) -> Result<Option<Permit>, Status> {
        let path = request.uri().path();
        let is_open = path.starts_with("/grpc.health.v1.Health/")
            || matches!(path.rsplit('/').next(), Some("ServerLive" | "ServerReady"));
        let info = request.extensions().get::<Info>();
        self.check_host(request, info)?;
        if !is_open && info.is_some_and(|info| info.met.is_reserved) {
            let words = "the server has as many connections as it may; this one is for questions about its health";
            return Err(Status::resource_exhausted(words));
        }
        let shown = request.headers().get(http::header::AUTHORIZATION);
        if !is_open && !self.admission.service.knows(shown) {
            return Err(Status::unauthenticated(
                "the server wants a token that it knows, in the metadata `authorization: Bearer TOKEN`",
            ));
        }
        self.permit(path)
    }

    /// Refuses a request that names another host, or comes from a page of another site.
    fn check_host(&self, request: &http::Request<Body>, info: Option<&Info>) -> Result<(), Status> {
        let hosts = &self.admission.service.settings().hosts;
        let parse = |text: &[u8]| Authority::of_client(text).map_err(Status::invalid_argument);
        // A request has one or the other, or two that are equal (RFC 9113, 8.3.1).
        let named = request.uri().authority().map(|authority| authority.as_str().as_bytes());
        let all = request.headers().get_all(http::header::HOST).iter().map(|host| host.as_bytes());
        let all = named.into_iter().chain(all).map(parse).collect::<Result<Vec<_>, _>>()?;
        let Some(asked) = all.first() else {
            return Err(Status::invalid_argument("the request has no `:authority`"));
        };
        if all.iter().any(|other| other != asked) {
            return Err(Status::invalid_argument("the request has two hosts"));
        }
        let refusal = hosts
            .refusal(asked, info.map(|info| &info.met))
            .or_else(|| foreign(request.method(), request.headers(), Some(asked), hosts));
        refusal.map_or(Ok(()), |words| Err(Status::permission_denied(words)))
    }

    /// The request with a body that is charged, and what it holds.
    fn held(
        &self,
        request: http::Request<Body>,
    ) -> (http::Request<Body>, Held, Option<Arc<Exchange>>) {
        let info = request.extensions().get::<Info>().cloned();
        let client = info.as_ref().and_then(|info| info.met.client);
        let held = Held::new(self.admission.service.account(client).charge());
        let is_stream = request.uri().path().ends_with("/ModelStreamInfer");
        let exchange = info.map(|info| Exchange::begin(&info.connected));
        if let Some(exchange) = exchange.as_ref().filter(|_| is_stream) {
            // A stream is counted, and may be silent.
            exchange.is_whole();
        }
        let mut request = request.map(|body| {
            Body::new(Arriving {
                body,
                held: held.clone(),
                exchange: exchange.clone(),
                within: Within::new(is_stream),
                pace: Pace::new(self.options.min_message_rate, self.options.message_patience),
                waits: None,
            })
        });
        request.extensions_mut().insert(held.clone());
        (request, held, exchange)
    }

    fn permit(&self, path: &str) -> Result<Option<Permit>, Status> {
        let method = path.rsplit('/').next();
        if !matches!(method, Some("ModelInfer" | "ModelStreamInfer")) {
            return Ok(None);
        }
        if !self.life.serves() {
            return Err(Life::refusal());
        }
        match method {
            Some("ModelInfer") => self.admission.request(),
            _ => self.admission.stream(),
        }
        .map(Some)
    }
}

impl<S: NamedService> NamedService for Limited<S> {
    const NAME: &'static str = S::NAME;
}

impl<S> Service<http::Request<Body>> for Limited<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<http::Response<Body>, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let permit = match self.check(&request) {
            Ok(permit) => permit,
            Err(status) => return Box::pin(async { Ok(status.into_http()) }),
        };
        let (mut request, held, exchange) = self.held(request);
        if let Some(permit) = permit {
            request.extensions_mut().insert(permit);
        }
        let answer = self.inner.call(request);
        Box::pin(async {
            let mut response = answer.await?;
            // A call of one message is answered now, and a stream has taken what it needs.
            drop(held);
            if let Some(status) = response.headers_mut().get_mut(Status::GRPC_STATUS)
                && status == TOO_LARGE
            {
                *status = http::HeaderValue::from_static(EXHAUSTED);
            }
            Ok(response.map(|body| Body::new(Leaving { body, _exchange: exchange })))
        })
    }
}

/// The status by which tonic refuses a message that is too large (OUT_OF_RANGE), and the one that other servers give
/// (RESOURCE_EXHAUSTED).
const TOO_LARGE: &str = "11";
const EXHAUSTED: &str = "8";

/// The same for a message of a stream.
pub(super) fn too_large(status: Status) -> Status {
    match status.code() {
        tonic::Code::OutOfRange => Status::resource_exhausted(status.message()),
        _ => status,
    }
}
