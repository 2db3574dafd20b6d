//! The checks that every request must pass before anything else is looked at.

use super::connection::Ambiguous;
use super::problem::Problem;
use super::reply::HEADER_LENGTH;
use super::routes::{Front, OPEN};
use crate::guard::{Authority, Met, foreign};
use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, Version, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

/// Refuses requests that may be understood in two ways, that name another host, or that a page of another site sends.
pub(crate) async fn guard(State(front): State<Front>, request: Request, next: Next) -> Response {
    let Err(problem) = check(&front, &request) else { return next.run(request).await };
    let mut response = problem.into_response();
    // Where its end is not certain, nor is the next one's begin.
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn check(front: &Front, request: &Request) -> Result<(), Problem> {
    framing(request)?;
    let (met, hosts) = (request.extensions().get::<Met>(), &front.service.settings().hosts);
    let asked = asked(request)?;
    if let Some(words) = asked.as_ref().and_then(|asked| hosts.refusal(asked, met)) {
        return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, words));
    }
    if let Some(words) = foreign(request.method(), request.headers(), asked.as_ref(), hosts) {
        return Err(Problem::new(StatusCode::FORBIDDEN, words));
    }
    if met.is_some_and(|met| met.is_reserved) && !OPEN.contains(&request.uri().path()) {
        let words = "the server has as many connections as it may; this one is for questions about its health";
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, words));
    }
    Ok(())
}

fn framing(request: &Request) -> Result<(), Problem> {
    ambiguity(request, &[HEADER_LENGTH]).map_or(Ok(()), |words| Err(Problem::bad(words)))
}

/// Why a request may be understood in two ways. Headers that say where a request's parts end are there once at most, and simple:
/// a proxy before the server might take another one of two. `further` are such headers beside those of HTTP.
pub fn ambiguity<B>(request: &axum::http::Request<B>, further: &[HeaderName]) -> Option<String> {
    if let Some(Ambiguous(words)) = request.extensions().get() {
        return Some((*words).to_owned());
    }
    let headers = request.headers();
    let once = [header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING];
    let is_twice = |name: &&HeaderName| headers.get_all(*name).iter().nth(1).is_some();
    if let Some(name) = once.iter().chain(further).find(is_twice) {
        return Some(format!("the request has more than one header `{name}`"));
    }
    let coding = headers.get(header::TRANSFER_ENCODING)?;
    (!coding.as_bytes().eq_ignore_ascii_case(b"chunked")).then(|| {
        "the only Transfer-Encoding that the server knows is `chunked`, by itself".to_owned()
    })
}

/// The host that a request is for (RFC 9112, 3.2): that of its target if it has one, else that of `Host`.
fn asked(request: &Request) -> Result<Option<Authority>, Problem> {
    let parse = |text: &[u8]| Authority::of_client(text).map_err(Problem::bad);
    let named =
        request.headers().get(header::HOST).map(|value| parse(value.as_bytes())).transpose()?;
    if let Some(authority) = request.uri().authority() {
        return parse(authority.as_str().as_bytes()).map(Some);
    }
    // Health checks of load balancers speak HTTP/1.0 without a host. Browsers do not, and the check of hosts is aimed at them.
    if named.is_none() && request.version() >= Version::HTTP_11 {
        return Err(Problem::bad("the request has no header `Host`"));
    }
    Ok(named)
}
