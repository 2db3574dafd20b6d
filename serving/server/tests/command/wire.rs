//! Requests over connections that stay.

use super::common::{Answer, PATIENCE, whole};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// A request whose answer is what was sent, whole.
pub fn post(connection: &mut (impl Read + Write), path: &str, body: &str) -> Answer {
    connection.write_all(whole(path, body).as_bytes()).unwrap();
    Answer::read(connection)
}

/// A connection to a server at a socket in the file system, when it is ready.
pub fn ready(socket: &Path) -> UnixStream {
    let deadline = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < deadline, "the server is not ready");
        if let Ok(mut connection) = UnixStream::connect(socket) {
            connection.set_read_timeout(Some(PATIENCE)).unwrap();
            connection
                .write_all(b"GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
                .unwrap();
            if Answer::read(&mut connection).status == 200 {
                return connection;
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
