//! Errors as responses: a status, and `{"error": …}`.

use crate::guard::Exhausted;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hydrozoa_models::{Code, Failure};
use serde_json::json;

/// The error response of a request.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) message: String,
}

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");

impl Problem {
    pub(crate) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    /// The request is wrong.
    pub(crate) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    /// There is more of the request than there may be.
    pub(crate) fn too_large(what: &str, limit: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!(
                "{what} exceeds the maximum allowed input size of {limit} bytes. Use --http-max-input-size to increase \
                 the limit."
            ),
        )
    }

    pub(crate) fn json(&self) -> String {
        json!({ "error": self.message }).to_string()
    }
}

impl From<Exhausted> for Problem {
    fn from(exhausted: Exhausted) -> Self {
        let status = match exhausted {
            Exhausted::Alone(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Exhausted::Server(_) => StatusCode::SERVICE_UNAVAILABLE,
            Exhausted::Client(_) => StatusCode::TOO_MANY_REQUESTS,
        };
        Self::new(status, exhausted.to_string())
    }
}

impl From<Failure> for Problem {
    fn from(failure: Failure) -> Self {
        let status = match failure.code {
            Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Code::NotFound => StatusCode::NOT_FOUND,
            Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
            Code::Unsupported => StatusCode::NOT_IMPLEMENTED,
            _ => StatusCode::BAD_REQUEST,
        };
        Self::new(status, failure.message)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response =
            (self.status, [(header::CONTENT_TYPE, JSON)], self.json()).into_response();
        if matches!(self.status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, scheme);
        }
        response
    }
}
