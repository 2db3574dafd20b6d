//! Whether a request says rightly what it is for: its target and its host (RFC 9112, 3.2 and 3.3).

use hyper::header::HOST;
use hyper::{Method, Request, Version};
use std::net::Ipv6Addr;

/// Whether a request of HTTP/1 names no host where it must, an invalid one, or a target that its method does not have.
pub(crate) fn is_wrong<B>(request: &Request<B>) -> bool {
    let uri = request.uri();
    let host = request.headers().get(HOST);
    if host.is_some_and(|host| !is_host(host.as_bytes())) {
        return true;
    }
    if request.version() >= Version::HTTP_2 {
        return false;
    }
    let is_nameless = host.is_none() && uri.authority().is_none();
    if is_nameless && request.version() == Version::HTTP_11 {
        return true;
    }
    match (uri.scheme(), uri.authority(), uri.path()) {
        // CONNECT alone has an authority for its target.
        (None, Some(_), _) => request.method() != Method::CONNECT,
        (None, None, "*") => request.method() != Method::OPTIONS,
        _ => false,
    }
}

/// Whether it is a host with or without a port, or empty (RFC 9110, 7.2).
fn is_host(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let (is_right, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let Some((address, port)) = rest.split_once(']') else { return false };
            (address.parse::<Ipv6Addr>().is_ok() || is_future(address), port)
        }
        None => {
            let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            (name.bytes().all(is_of_name), port)
        }
    };
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    is_right && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
}

/// Whether it is an address of a later version than 6 (RFC 3986, 3.2.2, IPvFuture).
fn is_future(address: &str) -> bool {
    let parts = address.strip_prefix(['v', 'V']).and_then(|rest| rest.split_once('.'));
    parts.is_some_and(|(version, address)| {
        let is_version = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let is_of_address = |byte| byte == b':' || is_of_name(byte) && byte != b'%';
        let are_there = !version.is_empty() && !address.is_empty();
        are_there && is_version(version) && address.bytes().all(is_of_address)
    })
}

/// Whether a registered name may have the byte (RFC 3986, 3.2.2).
fn is_of_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_an_address_with_or_without_a_port() {
        for right in [
            "",
            "a",
            "a.example.:80",
            "my_host",
            "10.0.0.1:8000",
            "[::1]",
            "[::1]:80",
            "a:",
            "[v1.foo]",
            "[vF.a:b]:80",
        ] {
            assert!(is_host(right.as_bytes()), "{right}");
        }
        for wrong in [
            "a b",
            "a/b",
            "a@b",
            "a:b",
            "a:80:80",
            "::1",
            "[::1",
            "[a]",
            "[::1]80",
            "\u{e9}",
            "a?b",
            "a#b",
            "[v1]",
            "[v.a]",
            "[vg.a]",
            "[v1.]",
            "[v1.a%20]",
        ] {
            assert!(!is_host(wrong.as_bytes()), "{wrong}");
        }
    }

    #[test]
    fn a_target_is_a_path_or_a_whole_address_except_for_some_methods() {
        let wrong = |method: &str, target: &str| {
            let request = Request::builder().method(method).uri(target).header(HOST, "a");
            is_wrong(&request.body(()).unwrap())
        };
        for (method, target) in
            [("GET", "/a"), ("GET", "http://a/b"), ("OPTIONS", "*"), ("CONNECT", "a:80")]
        {
            assert!(!wrong(method, target), "{method} {target}");
        }
        for (method, target) in [("GET", "a"), ("GET", "a:80"), ("OPTIONS", "a"), ("GET", "*")] {
            assert!(wrong(method, target), "{method} {target}");
        }
    }

    #[test]
    fn requests_of_http_1_1_have_a_host() {
        let wrong =
            |version| is_wrong(&Request::builder().version(version).uri("/").body(()).unwrap());
        assert!(wrong(Version::HTTP_11) && !wrong(Version::HTTP_10) && !wrong(Version::HTTP_2));
    }
}
