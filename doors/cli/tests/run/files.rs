//! Responses that are files, which the host sends.

use crate::client::{Client, get};
use crate::process::Server;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A file of so many bytes.
fn file(length: usize) -> (tempfile::TempDir, PathBuf, Vec<u8>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    let bytes: Vec<u8> = (0..length as u32 / 4 + 1).flat_map(u32::to_le_bytes).collect();
    std::fs::write(&path, &bytes[..length]).unwrap();
    (folder, path, bytes[..length].to_vec())
}

#[test]
fn a_file_of_wsgi_is_sent_from_its_position() {
    let (_folder, path, bytes) = file(3_000_001);
    let path = path.display();
    let server = Server::start("plain", &["--workers", "1"]);
    let mut client = Client::new(server.address());
    for position in [0, 1, 100_000, 3_000_000, 3_000_001] {
        let answer = client.get(&format!("/send?{position},,{path}"));
        assert_eq!(answer.header("content-length").unwrap(), (3_000_001 - position).to_string());
        assert!(answer.body == bytes[position..], "{position}");
    }
    let answer = client.get(&format!("/send?7,200000,{path}"));
    assert!(answer.body == bytes[7..200_007]);
    let head = format!("HEAD /send?1,,{path} HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(client.ask(head.as_bytes()).header("content-length"), Some("3000000"));
    assert_eq!(client.get("/unusual").text(), "through a pipe");
    assert_eq!(client.get("/opened").text(), "0");
    assert_eq!(client.get(&format!("/send?1,3000001,{path}")).status, 500);
    let log = server.log.wait_for("the file has 3000000 bytes", 1);
    assert!(log.contains("Content-Length announces 3000001"), "{log}");
    server.output.wait_for("\" 200 3000001 ", 1);
}

#[test]
fn a_path_of_asgi_is_sent() {
    let (folder, path, bytes) = file(3_000_001);
    let server = Server::start("coroutines", &["--workers", "1"]);
    let mut client = Client::new(server.address());
    let answer = client.get(&format!("/send?{}", path.display()));
    assert!(answer.body == bytes);
    let head = format!("HEAD /send?{} HTTP/1.1\r\nHost: a\r\n\r\n", path.display());
    assert_eq!(client.ask(head.as_bytes()).header("content-length"), Some("3000001"));
    assert_eq!(client.get(&format!("/send?{}", folder.path().display())).status, 500);
    server.log.wait_for("is not a regular file", 1);
    assert_eq!(client.get("/send?/nowhere").status, 500);
    server.log.wait_for("OSError: /nowhere: No such file", 1);
}

#[test]
fn a_client_that_reads_slowly_holds_no_worker_and_no_memory() {
    let (_folder, path, bytes) = file(100 << 20);
    for (application, target, other) in [
        ("plain", format!("/send?0,,{}", path.display()), "/list"),
        ("coroutines", format!("/send?{}", path.display()), "/seen"),
    ] {
        let server = Server::start(application, &["--workers", "1"]);
        let address = server.address();
        assert_eq!(get(address, other).status, 200);
        let before = server.peak();
        let mut slow: Vec<_> = (0..4).map(|_| Client::new(address)).collect();
        for client in &mut slow {
            client.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
            assert_eq!(client.head().unwrap().0, 200);
        }
        let began = Instant::now();
        assert_eq!(get(address, other).status, 200);
        assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
        std::thread::sleep(Duration::from_millis(300));
        let more = server.peak() - before;
        assert!(more < 24 << 20, "{} MiB more", more >> 20);
        drop(slow);
        assert!(get(address, &target).body == bytes);
    }
}

#[test]
fn a_file_that_becomes_shorter_ends_its_connection() {
    let (_folder, path, _) = file(100 << 20);
    let server = Server::start("plain", &["--workers", "1"]);
    let mut client = Client::new(server.address());
    let request = format!("GET /send?0,,{} HTTP/1.1\r\nHost: a\r\n\r\n", path.display());
    client.send(request.as_bytes());
    std::thread::sleep(Duration::from_millis(300));
    std::fs::write(&path, "short").unwrap();
    assert!(client.answer(false).is_err());
    server.log.wait_for("a file cannot be read to the end of its response", 1);
}
