//! How many inferences and streams a server has at a time. Who is too many is refused before his message is read.

use super::Options;
use super::life::Life;
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
    pub(super) inner: S,
    pub(super) admission: Arc<Admission>,
    pub(super) life: Life,
}

impl<S> Limited<S> {
    /// A place for an inference or a stream. Who has no token is refused, if the server wants one.
    fn check(&self, request: &http::Request<Body>) -> Result<Option<Permit>, Status> {
        let path = request.uri().path();
        let is_open = matches!(path.rsplit('/').next(), Some("ServerLive" | "ServerReady"));
        let shown = request.headers().get(http::header::AUTHORIZATION);
        if !is_open && !self.admission.service.knows(shown) {
            return Err(Status::unauthenticated(
                "the server wants a token that it knows, in the metadata `authorization: Bearer TOKEN`",
            ));
        }
        self.permit(path)
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

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        match self.check(&request) {
            Ok(None) => {}
            Ok(Some(permit)) => drop(request.extensions_mut().insert(permit)),
            Err(status) => return Box::pin(async { Ok(status.into_http()) }),
        }
        let answer = self.inner.call(request);
        Box::pin(async {
            let mut response = answer.await?;
            if let Some(status) = response.headers_mut().get_mut(Status::GRPC_STATUS)
                && status == TOO_LARGE
            {
                *status = http::HeaderValue::from_static(EXHAUSTED);
            }
            Ok(response)
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
