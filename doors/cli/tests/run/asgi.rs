//! Applications of ASGI.

use crate::client::{Client, get};
use crate::frameworks::served_with;
use crate::process::Server;
use std::env;
use std::io::Read;
use std::time::{Duration, Instant};

#[test]
fn the_scope_is_complete_and_bodies_stream_both_ways() {
    let server = Server::start("coroutines", &["--workers", "1", "--root-path", "/below"]);
    let mut client = Client::new(server.address());
    let shown = client.get("/below/scope?a=b%20c");
    assert_eq!(shown.status, 404, "the root is a part of the path");
    let server = Server::start("coroutines", &["--workers", "1"]);
    let mut client = Client::new(server.address());
    let shown = client.get("/scope?a=b%20c");
    let scope = shown.text();
    let port = server.address().port();
    for field in [
        "\"type\": \"http\"",
        "\"asgi\": {\"version\": \"3.0\", \"spec_version\": \"2.3\"}",
        "\"http_version\": \"1.1\"",
        "\"method\": \"GET\"",
        "\"scheme\": \"http\"",
        "\"path\": \"/scope\"",
        "\"raw_path\": \"b'/scope'\"",
        "\"query_string\": \"b'a=b%20c'\"",
        "\"root_path\": \"\"",
        "\"headers\": \"[(b'host', b'a.example')]\"",
        "\"client\": \"('127.0.0.1', ",
        &format!("\"server\": \"('127.0.0.1', {port})\""),
        "\"state\": {\"word\": \"started\", \"count\": []}",
        "\"extensions\": {\"http.response.pathsend\": {}}",
    ] {
        assert!(scope.contains(field), "{field}: {scope}");
    }
    assert_eq!(client.post("/echo", b"abc").text(), "abc");
    let large = vec![b'y'; 3_000_000];
    assert_eq!(client.post("/echo", &large).body, large);
    // The state is each worker's own, and a copy for each request.
    assert_eq!(client.get("/state").text(), "1 True");
    assert_eq!(client.get("/state").text(), "2 True");
    assert!(client.get("/scope").text().contains("\"count\": [1, 1]}"));
    assert_eq!(client.ask(b"HEAD /scope HTTP/1.1\r\nHost: a\r\n\r\n").status, 200);
    let (log, output) = server.end();
    assert!(output.contains("the application has ended"), "{output}");
    assert!(!log.contains("ERROR"), "{log}");
}

#[test]
fn requests_of_one_worker_run_beside_each_other_on_either_loop() {
    // The tests' own Python has no uvloop.
    let bare = || Server::start("coroutines", &["--workers", "1"]);
    let with =
        |options: &[&str]| served_with("coroutines", &[&["--workers", "1"], options].concat());
    for (server, name) in [
        (bare(), if env::var_os("HYDROZOA_TEST_UVLOOP").is_some() { "uvloop" } else { "asyncio" }),
        (with(&[]), "uvloop"),
        (with(&["--loop", "uvloop"]), "uvloop"),
        (with(&["--loop", "asyncio"]), "asyncio"),
    ] {
        let address = server.address();
        let runs = get(address, "/loop").text().to_owned();
        assert!(runs.starts_with(name), "{runs}");
        let began = Instant::now();
        let ask = move || get(address, "/sleep?0.5").status;
        let asked: Vec<_> = (0..20).map(|_| std::thread::spawn(ask)).collect();
        assert!(asked.into_iter().all(|asked| asked.join().unwrap() == 200));
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    }
}

#[test]
fn children_of_all_workers_are_waited_for_on_either_loop() {
    for option in ["uvloop", "asyncio"] {
        let server = served_with("coroutines", &["--workers", "3", "--loop", option]);
        let address = server.address();
        let ask = |number| move || get(address, &format!("/child?{number}")).text().to_owned();
        let asked: Vec<_> = (0..30).map(|number| std::thread::spawn(ask(number))).collect();
        for (number, asked) in asked.into_iter().enumerate() {
            assert_eq!(asked.join().unwrap(), format!("3 {number}"), "{option}");
        }
    }
}

#[test]
fn a_client_that_goes_is_reported_and_cancels_nothing() {
    let server = Server::start("coroutines", &["--workers", "1"]);
    let address = server.address();
    let mut client = Client::new(address);
    client.send(b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n");
    std::thread::sleep(Duration::from_millis(200));
    drop(client);
    let mut client = Client::new(address);
    client.send(b"GET /endless HTTP/1.1\r\nHost: a\r\n\r\n");
    client.stream.read_exact(&mut [0; 1_000_000]).unwrap();
    drop(client);
    let deadline = Instant::now() + crate::process::PATIENCE;
    loop {
        let seen = get(address, "/seen");
        if seen.text().contains("http.disconnect") && seen.text().contains("endless") {
            return;
        }
        assert!(Instant::now() < deadline, "{}", seen.text());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_application_may_end_the_connection_and_hears_the_end_behind_its_response() {
    let server = Server::start("coroutines", &["--workers", "1"]);
    let mut client = Client::new(server.address());
    assert_eq!(client.post("/receive-late", b"abc").text(), "answered");
    let closed = client.get("/close");
    assert_eq!((closed.text(), closed.header("connection")), ("closed", Some("close")));
    assert_eq!(client.stream.read(&mut [0]).unwrap(), 0);
    assert!(get(server.address(), "/seen").text().contains("http.disconnect"));
}

#[test]
fn an_application_that_fails_is_500_and_in_the_log() {
    let server = Server::start("coroutines", &["--workers", "1"]);
    let address = server.address();
    for (path, words) in [
        ("/raise", "LookupError: raised on purpose"),
        ("/nothing", "the application has returned without a response"),
        ("/feed", "a header of the response has a line feed in it"),
    ] {
        assert_eq!(get(address, path).status, 500, "{path}");
        server.log.wait_for(words, 1);
    }
    let mut client = Client::new(address);
    client.send(b"GET /raise-in-pieces HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(client.answer(false).is_err());
    server.log.wait_for("LookupError: raised in the body", 1);
    assert_eq!(get(address, "/seen").status, 200);
}

#[test]
fn an_application_without_a_lifespan_is_served_unless_it_must_have_one() {
    let server = Server::start("coroutines:without_lifespan", &["--workers", "1"]);
    assert_eq!(get(server.address(), "/").text(), "served");
    let (log, _) = server.end();
    assert!(!log.contains("ERROR"), "{log}");
    let options = ["--workers", "1", "--lifespan", "on"];
    let mut server = Server::of(crate::process::command("coroutines:without_lifespan", &options));
    assert_eq!(server.wait().code(), Some(1));
    server.log.wait_for("has failed to start: AssertionError", 1);
    let server = Server::start("coroutines:failing", &["--workers", "1", "--lifespan", "off"]);
    drop(server);
}
