//! Requests over connections that stay.

use super::common::{Answer, PATIENCE};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// A request whose answer is what was sent, whole.
pub fn post(connection: &mut (impl Read + Write), path: &str, body: &str) -> Answer {
    let length = body.len();
    let head =
        format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
    connection.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(answer) = Answer::of(&bytes) {
            return answer;
        }
        let length = connection.read(&mut buffer).unwrap();
        assert!(length > 0, "no answer: {}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&buffer[..length]);
    }
}

/// A connection to a server at a socket in the file system, when it is ready.
pub fn ready(socket: &Path) -> UnixStream {
    let deadline = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < deadline, "the server is not ready");
        if let Ok(mut connection) = UnixStream::connect(socket) {
            connection.set_read_timeout(Some(PATIENCE)).unwrap();
            let head =
                "GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
            connection.write_all(head.as_bytes()).unwrap();
            if Answer::read(&mut connection).status == 200 {
                let connection = UnixStream::connect(socket).unwrap();
                connection.set_read_timeout(Some(PATIENCE)).unwrap();
                return connection;
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
