//! Requests that a proxy before the server might understand in another way.

use crate::client::Client;
use crate::process::Server;
use std::io::Read;

#[test]
fn requests_that_may_be_understood_in_two_ways_are_refused() {
    let server = Server::start("plain", &["--workers", "1"]);
    let mut wrong = 0;
    for request in [
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /list HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\nabc",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3, 3\r\n\r\nabc",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length : 3\r\n\r\nabc",
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcde\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n\r\n",
        "GET /list HTTP/1.1\r\nHost: a\r\nX-A: b\r\n folded\r\n\r\n",
        "GET /list HTTP/1.1\nHost: a\n\n",
        "GET /list HTTP/1.1\r\nHost: a\nX-A: b\r\n\r\n",
        "GET /list HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET /list HTTP/1.1\r\n\r\n",
        "GET /list HTTP/1.1\r\nHost: a\r\nX-A: b\0c\r\n\r\n",
        "GET /list HTTP/1.1\r\nHost: a\r\nno colon\r\n\r\n",
        "GET  /list HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /li st HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /list HTTP/3.7\r\nHost: a\r\n\r\n",
        "GET /list HTTP/1.1\r\nHost: a b\r\n\r\n",
        "GET /list HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "GET /list HTTP/1.1\r\nHost: a@b\r\n\r\n",
        "GET /list HTTP/1.1\r\nHost: a:b\r\n\r\n",
        "GET list HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET * HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        let mut client = Client::new(server.address());
        client.send(request.as_bytes());
        let mut all = Vec::new();
        let read = client.stream.read_to_end(&mut all);
        let text = String::from_utf8_lossy(&all);
        // Both the refusal and the end of the connection are right: no second request is taken from it.
        assert!(read.is_ok() || all.is_empty(), "{request:?}: the connection goes on: {text}");
        assert!(
            all.is_empty() || text.starts_with("HTTP/1.1 4") || text.starts_with("HTTP/1.0 4"),
            "{request:?}: {text}"
        );
        assert_eq!(text.matches("HTTP/1.").count(), usize::from(!all.is_empty()), "{text}");
        wrong += 1;
    }
    assert_eq!(wrong, 31);
    let mut client = Client::new(server.address());
    let ambiguous =
        "GET /environ HTTP/1.1\r\nHost: a\r\nX_Forwarded_For: 6.6.6.6\r\nProxy: b\r\n\r\n";
    let answer = client.ask(ambiguous.as_bytes());
    assert!(!answer.text().contains("6.6.6.6") && !answer.text().contains("HTTP_PROXY"));
}
