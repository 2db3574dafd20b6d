//! Clients that are slow, large, or gone.

use crate::client::{Client, get};
use crate::process::Server;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::time::Duration;

const UPLOAD: usize = 100 << 20;

/// Sends so many bytes to be counted, and returns the count.
fn upload(address: SocketAddr, size: usize) -> String {
    let mut client = Client::new(address);
    let head = format!("POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: {size}\r\n\r\n");
    client.send(head.as_bytes());
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..size / piece.len() {
        client.send(&piece);
    }
    client.answer(false).unwrap().text().to_owned()
}

#[test]
fn a_large_upload_is_streamed_in_bounded_memory() {
    for application in ["plain", "coroutines"] {
        let server = Server::start(application, &["--workers", "1"]);
        get(server.address(), "/list");
        let before = server.peak();
        assert_eq!(upload(server.address(), UPLOAD), UPLOAD.to_string());
        let more = server.peak().saturating_sub(before);
        assert!(more < 24 << 20, "{application}: {more} bytes more than before");
    }
}

#[test]
fn a_client_that_does_not_read_holds_a_worker_up_and_no_memory() {
    for application in ["plain", "coroutines"] {
        let server = Server::start(application, &["--workers", "1", "--write-timeout", "1"]);
        let before = server.peak();
        let mut client = Client::new(server.address());
        client.send(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
        let (status, _) = client.head().unwrap();
        assert_eq!(status, 200);
        std::thread::sleep(Duration::from_millis(500));
        let more = server.peak().saturating_sub(before);
        assert!(more < 24 << 20, "{application}: {more} bytes more than before");
        // It is given up, and the worker goes on.
        assert_eq!(get(server.address(), "/none").status, 404);
        drop(client);
    }
}

#[test]
fn a_client_that_goes_ends_the_iteration_of_its_response() {
    let server = Server::start("plain", &["--workers", "1"]);
    let mut client = Client::new(server.address());
    client.send(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
    client.stream.read_exact(&mut [0; 100_000]).unwrap();
    drop(client);
    assert_eq!(get(server.address(), "/closed").text(), "1");
}

#[test]
fn a_slow_body_takes_no_worker_and_one_that_breaks_off_is_an_error_of_its_request() {
    let server = Server::start("plain", &["--workers", "1"]);
    let address = server.address();
    let mut slow = Client::new(address);
    slow.send(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nab");
    // Its request has not come whole, so the worker is free.
    assert_eq!(get(address, "/list").text(), "one two");
    slow.send(b"cd");
    assert_eq!(slow.answer(false).unwrap().text(), "abcd");
    let mut broken = Client::new(address);
    let head = "POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";
    broken.send(head.as_bytes());
    broken.send(&[b'x'; 100_000]);
    broken.stream.shutdown(Shutdown::Write).unwrap();
    drop(broken);
    server.log.wait_for("ConnectionResetError: the client has not sent all of its request", 1);
    assert_eq!(get(address, "/list").text(), "one two");
}

#[test]
fn a_client_that_waits_for_100_continue_gets_it() {
    let server = Server::start("plain", &["--workers", "1"]);
    let mut client = Client::new(server.address());
    client.send(
        b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n",
    );
    assert_eq!(client.head().unwrap().0, 100);
    client.stream.write_all(b"abc").unwrap();
    assert_eq!(client.answer(false).unwrap().text(), "abc");
    let other = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nExpect: more\r\n\r\n";
    assert_eq!(client.ask(other.as_bytes()).status, 417);
}
