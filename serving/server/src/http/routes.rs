//! The endpoints.

use super::body_reader::Reader;
use super::drain::drain;
use super::guard::guard;
use super::json::fields::Fields;
use super::problem::{JSON, Problem};
use super::{Limits, generate, infer, page, regions, repository};
use crate::guard::{Account, Met};
use crate::service::{Service, blocking, blocking_if_large};
use axum::Router;
use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::BytesMut;
use serde_json::{Value, json};
use std::sync::Arc;

/// The state that the endpoints share.
#[derive(Clone)]
pub(crate) struct Front {
    pub(crate) service: Service,
    pub(crate) limits: Arc<Limits>,
}

impl Front {
    /// The account charged for the requests of this request's client.
    pub(crate) fn account(&self, of_request: &Extensions) -> Account {
        self.service.account(of_request.get::<Met>().and_then(|met| met.client))
    }
}

/// The endpoints of the protocol and of its extensions, `/metrics`, and the page of [`Settings::page`](crate::Settings::page).
pub fn router(service: &Service, limits: &Limits) -> Router {
    let mut router = Router::new()
        .route("/v2", get(metadata))
        .route("/v2/health/live", get(live))
        .route("/v2/health/ready", get(ready))
        .route("/v2/models/stats", get(all_statistics))
        .route("/v2/logging", get(no_logging).post(no_logging))
        .route("/v2/trace/setting", get(no_trace).post(no_trace))
        .route("/v2/models/{model}/trace/setting", get(no_trace).post(no_trace));
    router = repository::routes(regions::routes(router));
    for model in ["/v2/models/{model}", "/v2/models/{model}/versions/{version}"] {
        router = router
            .route(model, get(model_metadata))
            .route(&format!("{model}/ready"), get(model_ready))
            .route(&format!("{model}/config"), get(config))
            .route(&format!("{model}/stats"), get(statistics))
            .route(&format!("{model}/infer"), post(infer::infer))
            .route(&format!("{model}/generate"), post(generate::generate))
            .route(&format!("{model}/generate_stream"), post(generate::generate_stream));
    }
    if service.settings().page {
        router = router.route("/", get(page::page)).route("/status", get(page::status));
    }
    finish(with_metrics(router), service, limits)
}

/// `/metrics` alone, for a port of its own.
pub fn metrics_router(service: &Service, limits: &Limits) -> Router {
    finish(with_metrics(Router::new()), service, limits)
}

fn with_metrics(router: Router<Front>) -> Router<Front> {
    router.route("/metrics", get(metrics)).route("/metrics/", get(metrics))
}

fn finish(router: Router<Front>, service: &Service, limits: &Limits) -> Router {
    let front = Front { service: service.clone(), limits: Arc::new(limits.clone()) };
    router
        .fallback(async || Problem::new(StatusCode::NOT_FOUND, "Not Found"))
        .method_not_allowed_fallback(async || {
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "Method Not Allowed")
        })
        .layer(from_fn_with_state(front.clone(), authorize))
        .layer(from_fn_with_state(front.clone(), guard))
        .layer(from_fn_with_state(front.limits.clone(), drain))
        .with_state(front)
}

/// Endpoints that answer every client at any time.
pub(crate) const OPEN: [&str; 2] = ["/v2/health/live", "/v2/health/ready"];

/// Refuses a client without a token, if the server requires one.
async fn authorize(State(front): State<Front>, request: Request, next: Next) -> Response {
    let shown = request.headers().get(header::AUTHORIZATION);
    if OPEN.contains(&request.uri().path()) || front.service.knows(shown) {
        return next.run(request).await;
    }
    let words =
        "the server wants a token that it knows, in the header `Authorization: Bearer TOKEN`";
    Problem::new(StatusCode::UNAUTHORIZED, words).into_response()
}

/// The model and the version that a path names.
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) version: Option<i64>,
}

impl<S: Send + Sync> FromRequestParts<S> for Target {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|error| Problem::bad(format!("the path cannot be read: {error}")))?;
        let of = |wanted: &str| {
            params.iter().find(|(name, _)| *name == wanted).map(|(_, value)| value.to_owned())
        };
        let version = of("version").map(|text| version(&text)).transpose()?;
        Ok(Self { name: of("model").unwrap_or_default(), version })
    }
}

fn version(text: &str) -> Result<i64, Problem> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Problem::new(StatusCode::NOT_FOUND, "Not Found"));
    }
    text.parse().map_err(|_| {
        Problem::bad(format!(
            "failed to get model version from specified version string '{text}' (details: out of range), version should \
             be an integral value > 0"
        ))
    })
}

fn json_response(status: StatusCode, value: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, JSON)], value.to_string()).into_response()
}

pub(crate) fn found(value: &Value) -> Response {
    json_response(StatusCode::OK, value)
}

async fn live() -> Response {
    found(&json!({ "live": true }))
}

async fn ready(State(front): State<Front>) -> Response {
    let is_ready = front.service.is_ready();
    let status = if is_ready { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    json_response(status, &json!({ "ready": is_ready }))
}

async fn metadata(State(front): State<Front>) -> Response {
    found(&front.service.metadata())
}

async fn model_metadata(State(front): State<Front>, target: Target) -> Result<Response, Problem> {
    Ok(found(&front.service.model_metadata(&target.name, target.version)?))
}

async fn model_ready(State(front): State<Front>, target: Target) -> Response {
    let (status, words) = match front.service.server().model(&target.name, target.version) {
        Ok(model) => match blocking(move || model.ask()).await {
            None => return found(&json!({ "name": target.name, "ready": true })),
            Some(problem) => (StatusCode::BAD_REQUEST, problem),
        },
        Err(failure) if failure.code == hydrozoa_models::Code::NotFound => {
            (StatusCode::NOT_FOUND, failure.message)
        }
        Err(_) => (StatusCode::BAD_REQUEST, "Model version not ready".to_owned()),
    };
    json_response(status, &json!({ "name": target.name, "ready": false, "error": words }))
}

async fn config(State(front): State<Front>, target: Target) -> Result<Response, Problem> {
    let model = front.service.server().model(&target.name, target.version)?;
    Ok(found(model.config().json()))
}

async fn statistics(State(front): State<Front>, target: Target) -> Result<Response, Problem> {
    Ok(found(&front.service.statistics(Some(&target.name), target.version)?))
}

async fn all_statistics(State(front): State<Front>) -> Result<Response, Problem> {
    Ok(found(&front.service.statistics(None, None)?))
}

async fn metrics(State(front): State<Front>) -> Response {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], front.service.metrics()).into_response()
}

/// The fields of a request that may be empty.
pub(crate) async fn fields<T: Send + 'static>(
    front: &Front,
    request: Request,
    read: impl FnOnce(Fields<'_>) -> Result<T, Problem> + Send + 'static,
) -> Result<T, Problem> {
    let account = front.account(request.extensions());
    let mut reader = Reader::new(request.into_body(), &front.limits, &account)?;
    let body: BytesMut = reader.rest().await?;
    let size = body.len();
    let parse = move || {
        let json = if body.is_empty() { &b"{}"[..] } else { &body };
        let fields = serde_json::from_slice(json).map_err(|error| {
            Problem::bad(format!("failed to parse the request JSON buffer: {error}"))
        })?;
        read(fields)
    };
    blocking_if_large(size, parse).await
}

pub(crate) fn done() -> Response {
    [(header::CONTENT_TYPE, JSON)].into_response()
}

async fn no_logging() -> Problem {
    let words = "the server does not support dynamic logging";
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, words)
}

async fn no_trace() -> Problem {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the server does not support tracing")
}
