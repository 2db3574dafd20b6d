//! Applications of WSGI that break its rules: their client sees 500 or a broken connection, the log says why, and the worker
//! goes on.

use crate::client::{Client, get};
use crate::process::Server;

#[test]
fn a_response_against_the_rules_is_500_with_words_in_the_log() {
    let server = Server::start("wrong", &["--workers", "1"]);
    let address = server.address();
    for (path, words) in [
        ("/raise", "LookupError: raised on purpose"),
        ("/feed", "a header of the response has a line feed in it"),
        ("/return", "a value with control characters"),
        ("/name", "is not the name of a header"),
        ("/feed-in-status", "is not of the form `200 OK`"),
        ("/hop", "the header connection is about the connection"),
        ("/transfer", "the header transfer-encoding is about the connection"),
        ("/status", "the status \"OK\" is not of the form"),
        ("/unicode", "UnicodeEncodeError"),
        ("/twice", "start_response was called twice"),
        ("/short", "the response has 3 bytes, and its Content-Length announces 10"),
        ("/text", "TypeError"),
        ("/none", "has not called start_response"),
        ("/exit", "SystemExit: 3"),
    ] {
        let answer = get(address, path);
        assert_eq!(answer.status, 500, "{path}: {answer:?}");
        assert_eq!(answer.header("set-cookie"), None);
        let log = server.log.wait_for(words, 1);
        assert!(log.contains("Traceback (most recent call last):"), "{log}");
    }
    assert_eq!(get(address, "/right").text(), "right");
}

#[test]
fn a_response_that_fails_behind_its_head_ends_its_connection() {
    let server = Server::start("wrong", &["--workers", "1"]);
    for (path, words) in [
        ("/raise-in-pieces", "LookupError: raised in the body"),
        ("/late", "LookupError: behind the head"),
        ("/short-in-pieces", "4 bytes shorter than its Content-Length"),
    ] {
        let mut client = Client::new(server.address());
        client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
        assert!(client.answer(false).is_err(), "{path}: its client must not take it for whole");
        server.log.wait_for(words, 1);
    }
    let mut client = Client::new(server.address());
    // The head was not sent yet, so it is another one.
    let answer = client.get("/early");
    assert_eq!((answer.status, answer.text()), (503, "sorry"));
    assert_eq!(client.get("/long").text(), "abc");
    assert_eq!(client.get("/right").text(), "right");
}
