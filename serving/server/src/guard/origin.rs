//! Requests that a browser sends for a page of another site (cross-site request forgery).
//!
//! A page may make its browser send a POST of `text/plain` anywhere without asking the server first. The browser names the site
//! it sends for in `Origin` (RFC 6454) and `Sec-Fetch-Site` (W3C Fetch Metadata). Other clients send neither.

use super::hosts::{Authority, Hosts};
use axum::http::{HeaderMap, HeaderName, Method, header};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Why a request comes from a page of another site, if it may change something. `asked` is the host that it names.
pub(crate) fn foreign(
    method: &Method,
    headers: &HeaderMap,
    asked: Option<&Authority>,
    hosts: &Hosts,
) -> Option<String> {
    // A page of another site cannot read the answer, so a request that only reads does no harm.
    if matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return None;
    }
    let text =
        |value: &axum::http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    for site in headers.get_all(FETCH_SITE).iter().map(text) {
        if !matches!(site.as_str(), "same-origin" | "none") {
            return Some(format!(
                "a page of another site sends the request (Sec-Fetch-Site: {site})"
            ));
        }
    }
    let mut origins = headers.get_all(header::ORIGIN).iter().map(text);
    let stranger = origins.find(|origin| {
        !of_origin(origin).is_some_and(|(origin, default)| {
            let same = |asked: &Authority| {
                let port = |authority: &Authority| authority.port.or(Some(default));
                asked.host == origin.host && port(asked) == port(&origin)
            };
            asked.is_some_and(same) || hosts.names(&origin)
        })
    })?;
    Some(format!(
        "a page of `{stranger}` sends the request; --allow-host NAME[:PORT] allows pages of a proxy's name"
    ))
}

/// The host of an origin, and the port that its scheme has by default.
fn of_origin(origin: &str) -> Option<(Authority, u16)> {
    let (scheme, rest) = origin.split_once("://")?;
    let default = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return None,
    };
    Some((Authority::parse(rest)?, default))
}

#[cfg(test)]
mod tests {
    use super::{Authority, FETCH_SITE, Hosts, foreign};
    use axum::http::{HeaderMap, Method, header};

    fn is_refused(method: &Method, origin: &str, site: &str, asked: &str) -> bool {
        let mut headers = HeaderMap::new();
        if !origin.is_empty() {
            headers.insert(header::ORIGIN, origin.parse().unwrap());
        }
        if !site.is_empty() {
            headers.insert(FETCH_SITE, site.parse().unwrap());
        }
        let hosts = Hosts::parse(["proxy.example"]).unwrap();
        foreign(method, &headers, Authority::parse(asked).as_ref(), &hosts).is_some()
    }

    #[test]
    fn what_changes_something_is_sent_by_no_page_of_another_site() {
        let refused =
            |origin: &str, site: &str| is_refused(&Method::POST, origin, site, "localhost:8000");
        for (origin, site) in [
            ("", ""),
            ("", "none"),
            ("http://localhost:8000", ""),
            ("http://LOCALHOST:8000", "same-origin"),
            ("https://proxy.example", ""),
            ("https://proxy.example:444", "same-origin"),
        ] {
            assert!(!refused(origin, site), "{origin} {site}");
        }
        for (origin, site) in [
            ("http://evil.example", ""),
            ("http://evil.example:8000", "same-origin"),
            ("http://localhost:3000", ""),
            ("http://localhost", ""),
            ("null", ""),
            ("file://", ""),
            ("localhost:8000", ""),
            ("http://localhost:8000/", ""),
            ("", "cross-site"),
            ("", "same-site"),
            ("", "new"),
            ("http://localhost:8000", "cross-site"),
        ] {
            assert!(refused(origin, site), "{origin} {site}");
            assert!(!is_refused(&Method::GET, origin, site, "localhost:8000"), "{origin} {site}");
            assert!(is_refused(&Method::DELETE, origin, site, "localhost:8000"), "{origin} {site}");
        }
        assert!(!is_refused(&Method::POST, "https://localhost", "", "localhost:443"));
        assert!(!is_refused(&Method::POST, "http://localhost", "", "localhost"));
    }
}
