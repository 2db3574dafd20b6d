//! Endpoints for the repository: its index, loads and unloads.

use super::json::fields::{Fields, read};
use super::problem::Problem;
use super::routes::{Front, Target, done, fields, found};
use crate::access::Client;
use crate::service::blocking;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hydrozoa_models::host::Overrides;

/// Adds the endpoints.
pub(crate) fn routes(router: Router<Front>) -> Router<Front> {
    router
        .route("/v2/repository/index", post(index))
        .route("/v2/repository/{repository}/index", post(index))
        .route("/v2/repository/models/{model}/load", post(load))
        .route("/v2/repository/models/{model}/unload", post(unload))
        .route("/v2/repository/{repository}/models/{model}/load", post(no_repository))
        .route("/v2/repository/{repository}/models/{model}/unload", post(no_repository))
}

async fn index(State(front): State<Front>, request: Request) -> Result<Response, Problem> {
    let is_ready = fields(&front, request, |fields| fields.read("ready")).await?;
    let service = front.service.clone();
    // It reads the repositories' folders.
    let index = blocking(move || service.index(is_ready.unwrap_or_default())).await;
    Ok(found(&index))
}

/// The client of a request.
fn client(front: &Front, request: &Request) -> Client {
    Client::of(&front.service, request.extensions().get(), request.headers())
}

async fn load(
    State(front): State<Front>,
    target: Target,
    request: Request,
) -> Result<Response, Problem> {
    let client = client(&front, &request);
    let overrides = fields(&front, request, overrides).await?;
    front.service.load(client, &target.name, overrides).await?;
    Ok(done())
}

/// The configuration and files that a load's parameters put in the place of the repository's.
fn overrides(fields: Fields<'_>) -> Result<Overrides, Problem> {
    let mut overrides = Overrides::default();
    let Some(parameters) = fields.get("parameters") else { return Ok(overrides) };
    let parameters: Fields<'_> = read("parameters", parameters)?;
    for (name, value) in parameters.0 {
        if name == "config" {
            overrides.config = Some(read(&name, value)?);
        } else if name.starts_with("file:") {
            let text: String = read(&name, value)?;
            let data = STANDARD.decode(text).map_err(|error| {
                Problem::bad(format!("Unable to parse '{name}': it is not base64: {error}"))
            })?;
            overrides.files.push((name, data.into()));
        } else {
            return Err(Problem::bad(format!("unrecognized load parameter '{name}'.")));
        }
    }
    Ok(overrides)
}

async fn unload(
    State(front): State<Front>,
    target: Target,
    request: Request,
) -> Result<Response, Problem> {
    let client = client(&front, &request);
    fields(&front, request, |fields| {
        let Some(parameters) = fields.get("parameters") else { return Ok(()) };
        let parameters: Fields<'_> = read("parameters", parameters)?;
        // No model depends on others, so there is nothing further to unload.
        parameters.read::<bool>("unload_dependents").map(drop)
    })
    .await?;
    front.service.unload(client, &target.name).await?;
    Ok(done())
}

async fn no_repository() -> Problem {
    Problem::new(StatusCode::NOT_IMPLEMENTED, "'repository_name' specification is not supported")
}
