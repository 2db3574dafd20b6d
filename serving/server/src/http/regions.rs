//! Endpoints for memory that clients share: `v2/systemsharedmemory` and `v2/cudasharedmemory`.

use super::problem::Problem;
use super::routes::{Front, done, fields, found};
use crate::inference::shared_memory;
use axum::Router;
use axum::extract::{FromRequestParts, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::response::Response;
use axum::routing::{get, post};
use serde_json::{Value, json};

/// Adds the endpoints.
pub(crate) fn routes(router: Router<Front>) -> Router<Front> {
    let system = "/v2/systemsharedmemory";
    let cuda = "/v2/cudasharedmemory";
    router
        .route(&format!("{system}/status"), get(status))
        .route(&format!("{system}/region/{{region}}/status"), get(status))
        .route(&format!("{system}/register"), post(register))
        .route(&format!("{system}/region/{{region}}/register"), post(register))
        .route(&format!("{system}/unregister"), post(unregister))
        .route(&format!("{system}/region/{{region}}/unregister"), post(unregister))
        .route(&format!("{cuda}/status"), get(cuda_status))
        .route(&format!("{cuda}/region/{{region}}/status"), get(cuda_status))
        .route(&format!("{cuda}/register"), post(cuda_register))
        .route(&format!("{cuda}/region/{{region}}/register"), post(cuda_register))
        .route(&format!("{cuda}/unregister"), post(cuda_unregister))
        .route(&format!("{cuda}/region/{{region}}/unregister"), post(cuda_unregister))
}

/// The region that a path names, if it names one.
struct Named(Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let params = RawPathParams::from_request_parts(parts, state)
            .await
            .map_err(|error| Problem::bad(format!("the path cannot be read: {error}")))?;
        Ok(Self(params.iter().next().map(|(_, value)| value.to_owned())))
    }
}

async fn status(State(front): State<Front>, named: Named) -> Result<Response, Problem> {
    let regions = front.service.regions().status(named.0.as_deref())?;
    let line = |region: &shared_memory::Region| {
        json!({
            "name": region.name,
            "key": region.key,
            "offset": region.offset,
            "byte_size": region.byte_size,
        })
    };
    let lines: Value = regions.iter().map(|region| line(region)).collect();
    Ok(found(&lines))
}

async fn register(
    State(front): State<Front>,
    named: Named,
    request: Request,
) -> Result<Response, Problem> {
    let regions = front.service.regions();
    // A client without permission is told so, whatever it sent.
    regions.check()?;
    let missing = |field: &str| {
        Problem::bad(format!("Shared memory register request has no '{field}' field"))
    };
    let (key, offset, size) = fields(&front, request, move |fields| {
        let key: Option<String> = fields.read("key")?;
        let offset: Option<u64> = fields.read("offset")?;
        let size: Option<u64> = fields.read("byte_size")?;
        let key = key.ok_or_else(|| missing("key"))?;
        Ok((key, offset.unwrap_or_default(), size.ok_or_else(|| missing("byte_size"))?))
    })
    .await?;
    regions.register(named.0.as_deref().unwrap_or_default(), &key, offset, size)?;
    Ok(done())
}

async fn unregister(State(front): State<Front>, named: Named) -> Result<Response, Problem> {
    front.service.regions().unregister(named.0.as_deref())?;
    Ok(done())
}

async fn cuda_status(named: Named) -> Result<Response, Problem> {
    match named.0 {
        Some(name) => Err(shared_memory::not_found("cuda shared memory", &name).into()),
        None => Ok(found(&json!([]))),
    }
}

async fn cuda_register(State(front): State<Front>, named: Named) -> Result<Response, Problem> {
    front.service.regions().check()?;
    Err(shared_memory::no_cuda(named.0.as_deref().unwrap_or_default()).into())
}

/// None is ever registered, so none is left.
async fn cuda_unregister(State(front): State<Front>) -> Result<Response, Problem> {
    front.service.regions().check()?;
    Ok(done())
}
