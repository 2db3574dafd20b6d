//! The head of a request, as an application gets it: the environ of WSGI, or the scope of ASGI.

use crate::forwarded::{Client, Scheme};
use bytes::Bytes;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, HeaderName, TRANSFER_ENCODING};
use hyper::http::request::Parts;
use hyper::{Method, Version};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::sync::Arc;

/// Where a listener is, in the words of the interfaces.
#[derive(Clone, Debug)]
pub(crate) struct ListenerPlace {
    /// The path of a socket in the file system.
    pub(crate) path: Option<Arc<str>>,
    pub(crate) has_tls: bool,
}

/// A request's head with what the server knows of its connection.
pub(crate) struct Asked {
    pub(crate) parts: Parts,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) client: Client,
    pub(crate) scheme: Scheme,
}

impl Asked {
    pub(crate) fn is_head(&self) -> bool {
        self.parts.method == Method::HEAD
    }

    fn path(&self) -> &str {
        match self.parts.uri.path() {
            "" => "/",
            path => path,
        }
    }

    fn query(&self) -> &str {
        self.parts.uri.query().unwrap_or_default()
    }

    /// The host that HTTP/2 names beside the headers (RFC 9113, 8.3.1).
    fn authority(&self) -> Option<&str> {
        let authority = self.parts.uri.authority()?;
        (!self.parts.headers.contains_key(HOST)).then_some(authority.as_str())
    }

    /// The head of WSGI: names and values of the environ, one a line, and the path.
    pub(crate) fn wsgi(&self, root: &str, body: Option<&Bytes>) -> (String, String) {
        let mut head = String::with_capacity(1024);
        // Nothing in a request's head but its decoded path can hold a line feed.
        let mut add = |name: &str, value: &str| {
            head.push_str(name);
            head.push('\n');
            head.push_str(value);
            head.push('\n');
        };
        add("REQUEST_METHOD", self.parts.method.as_str());
        add("QUERY_STRING", self.query());
        add("SERVER_PROTOCOL", protocol(self.parts.version));
        add("wsgi.url_scheme", self.scheme.name());
        if let Some(target) = self.parts.uri.path_and_query() {
            add("RAW_URI", target.as_str());
            add("REQUEST_URI", target.as_str());
        }
        let mut number = String::new();
        match self.local {
            Some(local) => {
                let _ = write!(number, "{}", local.ip());
                add("SERVER_NAME", &number);
                number.clear();
                let _ = write!(number, "{}", local.port());
                add("SERVER_PORT", &number);
            }
            None => {
                // Neither may be empty (RFC 3875, 4.1.14 and 4.1.15).
                add("SERVER_NAME", "localhost");
                add("SERVER_PORT", if self.scheme == Scheme::Https { "443" } else { "80" });
            }
        }
        number.clear();
        self.client.write_address(&mut number);
        add("REMOTE_ADDR", &number);
        if let Some(port) = self.client.port() {
            number.clear();
            let _ = write!(number, "{port}");
            add("REMOTE_PORT", &number);
        }
        if let Some(authority) = self.authority() {
            add("HTTP_HOST", authority);
        }
        let is_chunked = self.parts.headers.contains_key(TRANSFER_ENCODING);
        let whole = body.filter(|_| is_chunked);
        if let Some(body) = whole {
            // The server has decoded it (RFC 9112, 7.1.3).
            number.clear();
            let _ = write!(number, "{}", body.len());
            add("CONTENT_LENGTH", &number);
        }
        for name in self.parts.headers.keys() {
            if is_ambiguous(name) || whole.is_some() && *name == TRANSFER_ENCODING {
                continue;
            }
            variable(&mut head, name);
            head.push('\n');
            let separator = if *name == COOKIE { "; " } else { "," };
            for (index, value) in self.parts.headers.get_all(name).iter().enumerate() {
                if index > 0 {
                    head.push_str(separator);
                }
                push_latin1(&mut head, value.as_bytes());
            }
            head.push('\n');
        }
        // The last line feed would begin another field.
        head.pop();
        let mut path = String::with_capacity(self.path().len());
        let decoded = decoded(self.path());
        let inside = decoded
            .strip_prefix(root.as_bytes())
            .filter(|inside| !root.is_empty() && (inside.is_empty() || inside.starts_with(b"/")));
        push_latin1(&mut path, inside.unwrap_or(&decoded));
        (head, path)
    }

    /// The scope of ASGI.
    pub(crate) fn asgi(&self, place: &ListenerPlace, root: &str) -> Scope {
        let mut fields = Vec::with_capacity(512);
        let mut add = |name: &[u8], value: &[u8]| {
            fields.extend_from_slice(name);
            fields.push(b'\n');
            fields.extend_from_slice(value);
            fields.push(b'\n');
        };
        if let Some(authority) = self.authority() {
            add(b"host", authority.as_bytes());
        }
        for (name, value) in &self.parts.headers {
            add(name.as_str().as_bytes(), value.as_bytes());
        }
        fields.pop();
        let mut raw_path = self.path().as_bytes().to_vec();
        let mut path = String::from_utf8_lossy(&decoded(self.path())).into_owned();
        if !root.is_empty() && !is_within(&path, root) {
            // The path of ASGI includes the root, which a proxy has taken off.
            path.insert_str(0, root);
            raw_path.splice(0..0, root.bytes());
        }
        let mut client = String::new();
        if let Some(port) = self.client.port() {
            self.client.write_address(&mut client);
            let _ = write!(client, " {port}");
        }
        let server = match (self.local, &place.path) {
            (Some(local), _) => format!("{} {}", local.ip(), local.port()),
            (None, Some(path)) => format!(" {path}"),
            (None, None) => String::new(),
        };
        Scope {
            version: version(self.parts.version),
            method: self.parts.method.as_str().to_owned(),
            scheme: self.scheme.name(),
            path,
            raw_path,
            query: self.query().as_bytes().to_vec(),
            fields,
            client,
            server,
        }
    }
}

fn is_within(path: &str, root: &str) -> bool {
    let inside = path.strip_prefix(root);
    inside.is_some_and(|inside| inside.is_empty() || inside.starts_with('/'))
}

/// The values of ASGI's scope that each request has its own of.
pub(crate) struct Scope {
    pub(crate) version: &'static str,
    pub(crate) method: String,
    pub(crate) scheme: &'static str,
    pub(crate) path: String,
    pub(crate) raw_path: Vec<u8>,
    pub(crate) query: Vec<u8>,
    pub(crate) fields: Vec<u8>,
    pub(crate) client: String,
    pub(crate) server: String,
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2",
        _ => "HTTP/1.1",
    }
}

/// The same without its first part.
fn version(version: Version) -> &'static str {
    protocol(version).trim_start_matches("HTTP/")
}

/// Whether a header's name has the variable of another one: `X_Forwarded_For` that of `X-Forwarded-For`, which a proxy may vouch
/// for. `Proxy` would be the variable HTTP_PROXY, which clients of HTTP read for themselves (CVE-2016-5385).
fn is_ambiguous(name: &HeaderName) -> bool {
    name.as_str().contains('_') || name == "proxy"
}

/// Adds the name of a header's variable (RFC 3875, 4.1.18).
fn variable(head: &mut String, name: &HeaderName) {
    if *name != CONTENT_LENGTH && *name != CONTENT_TYPE {
        head.push_str("HTTP_");
    }
    head.extend(name.as_str().chars().map(|letter| match letter {
        '-' => '_',
        letter => letter.to_ascii_uppercase(),
    }));
}

/// Adds bytes, each as the character of its number (PEP 3333, "Unicode Issues").
fn push_latin1(text: &mut String, bytes: &[u8]) {
    match std::str::from_utf8(bytes) {
        Ok(ascii) if bytes.is_ascii() => text.push_str(ascii),
        _ => text.extend(bytes.iter().map(|byte| char::from(*byte))),
    }
}

/// A path without its percent-encoding. A wrong encoding stands for itself.
fn decoded(path: &str) -> Vec<u8> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let bytes = path.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let pair = (bytes[at] == b'%')
            .then(|| Some((digit(bytes.get(at + 1))?, digit(bytes.get(at + 2))?)))
            .flatten();
        match pair {
            Some((high, low)) => {
                decoded.push((high * 16 + low) as u8);
                at += 3;
            }
            None => {
                decoded.push(bytes[at]);
                at += 1;
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;
    use std::collections::HashMap;

    fn asked(target: &str, headers: &[(&str, &[u8])]) -> Asked {
        let mut request = Request::builder().method("GET").uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let parts = request.body(()).unwrap().into_parts().0;
        let local = Some("127.0.0.1:8000".parse().unwrap());
        let client = Client::of(Some("10.0.0.1:99".parse().unwrap()));
        Asked { parts, local, client, scheme: Scheme::Http }
    }

    const PLACE: ListenerPlace = ListenerPlace { path: None, has_tls: false };

    fn environ(asked: &Asked, root: &str, body: Option<&Bytes>) -> HashMap<String, String> {
        let (head, path) = asked.wsgi(root, body);
        let fields: Vec<_> = head.split('\n').map(str::to_owned).collect();
        let mut environ: HashMap<_, _> =
            fields.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        environ.insert("PATH_INFO".to_owned(), path);
        environ
    }

    #[test]
    fn the_environ_has_the_variables_of_cgi() {
        let headers: &[(&str, &[u8])] = &[
            ("host", b"a.example"),
            ("content-type", b"text/plain"),
            ("content-length", b"3"),
            ("x-two", b"1"),
            ("x-two", b"2"),
            ("cookie", b"a=1"),
            ("cookie", b"b=2"),
            ("x-latin", b"\xe9"),
            ("x_two", b"3"),
            ("proxy", b"evil"),
        ];
        let environ = environ(&asked("/caf%C3%A9%zz/%0A?q=%20", headers), "", None);
        for (name, value) in [
            ("REQUEST_METHOD", "GET"),
            ("PATH_INFO", "/caf\u{c3}\u{a9}%zz/\n"),
            ("QUERY_STRING", "q=%20"),
            ("RAW_URI", "/caf%C3%A9%zz/%0A?q=%20"),
            ("SERVER_PROTOCOL", "HTTP/1.1"),
            ("SERVER_NAME", "127.0.0.1"),
            ("SERVER_PORT", "8000"),
            ("REMOTE_ADDR", "10.0.0.1"),
            ("REMOTE_PORT", "99"),
            ("CONTENT_TYPE", "text/plain"),
            ("CONTENT_LENGTH", "3"),
            ("HTTP_HOST", "a.example"),
            ("HTTP_X_TWO", "1,2"),
            ("HTTP_COOKIE", "a=1; b=2"),
            ("HTTP_X_LATIN", "\u{e9}"),
            ("wsgi.url_scheme", "http"),
        ] {
            assert_eq!(environ.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert!(!environ.contains_key("HTTP_PROXY") && !environ.contains_key("HTTP_CONTENT_TYPE"));
    }

    #[test]
    fn the_root_is_taken_off_for_wsgi_and_put_on_for_asgi() {
        for (target, wsgi, asgi) in [
            ("/api/x", "/x", "/api/x"),
            ("/api", "", "/api"),
            ("/x", "/x", "/api/x"),
            ("/apix", "/apix", "/api/apix"),
        ] {
            let asked = asked(target, &[]);
            assert_eq!(environ(&asked, "/api", None)["PATH_INFO"], wsgi);
            assert_eq!(asked.asgi(&PLACE, "/api").path, asgi);
        }
    }

    #[test]
    fn a_chunked_body_that_came_whole_has_a_length() {
        let asked = asked("/", &[("transfer-encoding", b"chunked")]);
        let environ_of = |body: Option<&Bytes>| environ(&asked, "", body);
        assert_eq!(environ_of(Some(&"abc".into()))["CONTENT_LENGTH"], "3");
        assert_eq!(environ_of(Some(&"abc".into())).get("HTTP_TRANSFER_ENCODING"), None);
        assert_eq!(environ_of(None)["HTTP_TRANSFER_ENCODING"], "chunked");
    }

    #[test]
    fn the_host_of_http_2_is_a_header() {
        let mut asked = asked("https://b.example/p?q", &[("a", b"b")]);
        asked.parts.version = Version::HTTP_2;
        let scope = asked.asgi(&PLACE, "");
        assert_eq!(scope.fields, b"host\nb.example\na\nb");
        assert_eq!((scope.version, &*scope.path, &*scope.query), ("2", "/p", &b"q"[..]));
        assert_eq!((&*scope.client, &*scope.server), ("10.0.0.1 99", "127.0.0.1 8000"));
        assert_eq!(environ(&asked, "", None)["HTTP_HOST"], "b.example");
    }
}
