//! `/`, a page for people, and `/status`, its figures as JSON.

use super::problem::JSON;
use super::routes::Front;
use crate::figures::page::POLICY;
use crate::service::blocking;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};

/// Figures of another moment are of no use.
const NO_STORE: &str = "no-store";

pub(crate) async fn page(State(front): State<Front>) -> Response {
    // It reads the repositories' folders.
    let page = blocking(move || crate::figures::page::page(&front.service.now())).await;
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CACHE_CONTROL, NO_STORE),
        (header::CONTENT_SECURITY_POLICY, &POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    (headers, page).into_response()
}

pub(crate) async fn status(State(front): State<Front>) -> Response {
    let status = blocking(move || front.service.status()).await;
    let no_store = header::HeaderValue::from_static(NO_STORE);
    let headers = [(header::CONTENT_TYPE, JSON), (header::CACHE_CONTROL, no_store)];
    (headers, status.to_string()).into_response()
}
