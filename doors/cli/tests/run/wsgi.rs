//! Applications of WSGI.

use crate::client::{Client, get};
use crate::process::Server;

/// A field of a JSON object of texts.
fn field<'a>(json: &'a str, name: &str) -> &'a str {
    let begin = json.find(&format!("\"{name}\": ")).unwrap_or_else(|| panic!("{name}: {json}"));
    let value = &json[begin + name.len() + 4..];
    value.split([',', '}']).next().unwrap().trim_matches('"')
}

#[test]
fn an_application_under_the_standard_validator_gets_requests_of_every_kind() {
    let server = Server::start("plain:validated", &["--workers", "1", "--root-path", "/below"]);
    let mut client = Client::new(server.address());
    let shown = client.get("/below/environ?a=b%20c");
    let environ = shown.text();
    for (name, value) in [
        ("SCRIPT_NAME", "/below"),
        ("PATH_INFO", "/environ"),
        ("QUERY_STRING", "a=b%20c"),
        ("REQUEST_METHOD", "GET"),
        ("HTTP_HOST", "a.example"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("SERVER_NAME", "127.0.0.1"),
        ("SERVER_PROTOCOL", "HTTP/1.1"),
        ("wsgi.url_scheme", "http"),
        ("wsgi.multithread", "false"),
        ("wsgi.multiprocess", "false"),
        ("wsgi.run_once", "false"),
        ("wsgi.input_terminated", "true"),
    ] {
        assert_eq!(field(environ, name), value, "{name}");
    }
    assert_eq!(field(environ, "SERVER_PORT"), server.address().port().to_string());
    assert_eq!(client.post("/echo", b"abc").text(), "abc");
    assert_eq!(client.post("/echo", b"").text(), "");
    let large = vec![b'y'; 300_000];
    assert_eq!(client.post("/echo", &large).body, large);
    let chunked = b"POST /count HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n";
    assert_eq!(client.ask(chunked).text(), "5");
    assert_eq!(client.get("/write").text(), "written, returned");
    assert_eq!(client.get("/pieces").text(), "one two three");
    assert_eq!(client.get("/list").text(), "one two");
    assert!(client.get("/file").text().starts_with("\"\"\"An application of WSGI"));
    assert_eq!(client.get("/empty").text(), "");
    for status in [204, 304] {
        let answer = client.get(&format!("/{status}"));
        assert_eq!((answer.status, answer.header("content-length")), (status, None));
    }
    for path in ["/environ", "/pieces", "/list", "/file"] {
        let head = format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(client.ask(head.as_bytes()).status, 200);
    }
    assert_eq!(client.get("/none").status, 404);
    // Three bodies of /echo, and two of /pieces: each iterable was closed.
    assert_eq!(client.get("/closed").text(), "5");
    let (log, output) = server.end();
    assert!(!log.contains("ERROR") && !log.contains("without being closed"), "{log}");
    assert!(output.contains("\"GET /below/environ?a=b%20c HTTP/1.1\" 200 "), "{output}");
}

#[test]
fn a_body_is_a_stream_of_lines_and_bytes() {
    let server = Server::start("plain:application", &["--workers", "1"]);
    let mut client = Client::new(server.address());
    for filler in [0, 200_000] {
        let body = [b"one\ntwo\nthree\n".as_slice(), &vec![b'z'; filler]].concat();
        let answer = client.post("/lines", &body);
        assert!(answer.text().starts_with(r"[b'one\n', b'two\n', b'three\n'"), "{}", answer.text());
    }
    // It is not read, and the connection goes on.
    assert_eq!(client.post("/list", &vec![b'z'; 1_000_000]).text(), "one two");
    // Only the validator hides that it is a list.
    assert_eq!(client.get("/list").header("content-length"), Some("7"));
}

#[test]
fn factories_attributes_and_variables_are_found() {
    let folder = std::env::temp_dir().join(format!("hydrozoa-run-{}", std::process::id()));
    std::fs::write(&folder, "OF_THE_TEST='a b'\n").unwrap();
    let file = folder.to_str().unwrap();
    for (application, options, target, expected) in [
        ("plain:create('a', number=2)", &["--workers", "1"][..], "/", "a 2"),
        ("plain:create", &["--factory", "--workers", "1"], "/", "none 0"),
        ("plain", &["--env-file", file, "--workers", "1"], "/variable", "a b"),
        ("plain:application.__call__", &["--workers", "2"], "/variable", "none"),
    ] {
        let server = Server::start(application, options);
        assert_eq!(get(server.address(), target).text(), expected, "{application}");
    }
    std::fs::remove_file(&folder).unwrap();
}

#[test]
fn any_free_worker_takes_the_next_request_in_one_process() {
    let server = Server::start("plain", &["--workers", "2"]);
    let address = server.address();
    let asked: Vec<_> =
        (0..2).map(|_| std::thread::spawn(move || get(address, "/sleep?0.5").status)).collect();
    std::thread::sleep(std::time::Duration::from_millis(200));
    // Both are busy: this waits for the first that is free.
    let began = std::time::Instant::now();
    assert_eq!(get(address, "/list").status, 200);
    assert!(began.elapsed() < std::time::Duration::from_secs(20));
    assert!(asked.into_iter().all(|asked| asked.join().unwrap() == 200));
    let answers: Vec<_> = (0..40).map(|_| get(address, "/who").text().to_owned()).collect();
    let process = server.child.id().to_string();
    assert!(answers.iter().all(|answer| answer.split(' ').next() == Some(&process)), "{answers:?}");
}
