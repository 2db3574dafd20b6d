//! The frameworks that most applications are written with, of the environment that HYDROZOA_TEST_WEB names.

use crate::client::{Client, get};
use crate::process::{Server, apps};
use std::time::{Duration, Instant};
use tokio_tungstenite::tungstenite::Message;

fn served(application: &str) -> Server {
    served_with(application, &[])
}

/// The environment.
pub fn venv() -> String {
    std::env::var("HYDROZOA_TEST_WEB").expect(
        "HYDROZOA_TEST_WEB is a virtual environment with Flask, Django, FastAPI and prometheus_client: `cargo xtask test` makes it",
    )
}

pub fn served_with(application: &str, options: &[&str]) -> Server {
    let venv = venv();
    let workers: &[&str] = if options.contains(&"--workers") { &[] } else { &["--workers", "2"] };
    let all = [workers, &["--venv", &venv], options].concat();
    Server::start(application, &all)
}

/// A form with a file in it.
fn form(client: &mut Client, target: &str) -> crate::client::Answer {
    let body = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.txt\"\r\n\
                Content-Type: text/plain\r\n\r\nabc\r\n--b--\r\n";
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.ask(format!("{head}{body}").as_bytes())
}

/// The source of an application, which it sends as a file.
fn source(name: &str) -> Vec<u8> {
    std::fs::read(apps().join(name)).unwrap()
}

#[test]
fn flask_is_served() {
    let server = served("in_flask:app");
    let mut client = Client::new(server.address());
    assert_eq!(client.get("/hello/caf%C3%A9?q=1").text(), "hello caf\u{e9} 1");
    assert_eq!(form(&mut client, "/upload").text(), "a.txt 3");
    assert_eq!(client.get("/stream").text(), "0,1,2,");
    assert_eq!(client.get("/file").body, source("in_flask.py"));
    assert_eq!(client.get("/nothing").status, 404);
    assert_eq!(client.get("/raise").status, 500);
    assert!(client.get("/cookie").header("set-cookie").unwrap().starts_with("session="));
}

#[test]
fn django_is_served_by_both_interfaces() {
    for application in ["in_django:application", "in_django:asynchronous"] {
        let server = served(application);
        let mut client = Client::new(server.address());
        let get = |client: &mut Client, target: &str| {
            client.ask(format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes())
        };
        assert_eq!(get(&mut client, "/hello/?q=1").text(), "hello 1");
        assert_eq!(form(&mut client, "/upload/").text(), "a.txt 3");
        assert_eq!(get(&mut client, "/stream/").text(), "0,1,2,");
        assert_eq!(get(&mut client, "/file/").body, source("in_django.py"));
        // Django sets the process's time zone.
        assert_eq!(get(&mut client, "/epoch/").text(), "1970-01-01 05:30:00");
        assert_eq!(get(&mut client, "/nothing/").status, 404);
        assert_eq!(get(&mut client, "/raise/").status, 500);
    }
}

#[test]
fn fastapi_and_starlette_are_served() {
    let server = served("in_fastapi:app");
    let address = server.address();
    let mut client = Client::new(address);
    assert_eq!(client.get("/hello/5?q=a").text(), r#"{"number":5,"q":"a","state":"started"}"#);
    assert_eq!(client.get("/hello/x").status, 422);
    assert_eq!(form(&mut client, "/upload").text(), r#"{"name":"a.txt","size":3}"#);
    assert_eq!(client.get("/stream").text(), "0,1,2,");
    let file = client.get("/file");
    assert_eq!(file.body, source("in_fastapi.py"));
    assert!(file.header("etag").is_some());
    let part = client.ask(b"GET /file HTTP/1.1\r\nHost: a\r\nRange: bytes=3-9\r\n\r\n");
    assert_eq!((part.status, &part.body[..]), (206, &file.body[3..10]));
    // anyio's threads go on from one request to the next. Either worker may get one.
    let calls: Vec<String> = (0..4).map(|_| client.get("/thread").text().to_owned()).collect();
    assert!(calls.contains(&"\"call 2 on AnyIO worker thread\"".to_owned()), "{calls:?}");
    assert_eq!(client.get("/raise").status, 500);
    assert!(client.get("/openapi.json").text().contains("\"openapi\""));
    assert_eq!(get(address, "/background").text(), "\"later\"");
    server.output.wait_for("in the background", 1);
    let mut socket = crate::websockets::connect(address, "/socket").unwrap();
    socket.send(Message::text("a")).unwrap();
    assert_eq!(socket.read().unwrap(), Message::text(r#"{"heard":"a"}"#));
    socket.close(None).unwrap();
    while socket.read().is_ok() {}
    assert!(server.end().1.contains("the lifespan has ended"));
}

/// Also while a client keeps its connection, and those of ASGI an event loop and threads that wait for work.
#[test]
fn workers_that_rest_have_their_memory_in_files() {
    for (application, target) in
        [("in_flask:app", "/hello/a?q=1"), ("in_fastapi:app", "/hello/5?q=a")]
    {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let server = served_with(application, &["--dense", folder.path().to_str().unwrap()]);
        let mut client = Client::new(server.address());
        let answer = client.get(target).text().to_owned();
        for _ in 0..100 {
            assert_eq!(client.get(target).text(), answer);
        }
        let full = server.anonymous();
        let end = Instant::now() + Duration::from_secs(60);
        while server.anonymous() * 2 > full {
            assert!(Instant::now() < end, "{application}: {} of {full}", server.anonymous());
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(client.get(target).text(), answer);
        server.end();
    }
}
