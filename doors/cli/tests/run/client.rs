//! A client of HTTP/1.1 that sends what it is told, right or wrong.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::process::PATIENCE;

pub struct Client<S = TcpStream> {
    pub stream: S,
    read: Vec<u8>,
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|it| it.1)
    }
}

impl Client {
    pub fn new(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self::over(stream)
    }
}

impl<S: Read + Write> Client<S> {
    pub fn over(stream: S) -> Self {
        Self { stream, read: Vec::new() }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    fn more(&mut self) -> io::Result<()> {
        let mut piece = [0; 64 << 10];
        match self.stream.read(&mut piece)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            length => {
                self.read.extend_from_slice(&piece[..length]);
                Ok(())
            }
        }
    }

    fn taken(&mut self, length: usize) -> io::Result<Vec<u8>> {
        while self.read.len() < length {
            self.more()?;
        }
        Ok(self.read.drain(..length).collect())
    }

    fn line(&mut self) -> io::Result<String> {
        loop {
            if let Some(end) = self.read.windows(2).position(|two| two == b"\r\n") {
                let line = self.taken(end + 2)?;
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            self.more()?;
        }
    }

    /// Reads a response's head.
    pub fn head(&mut self) -> io::Result<(u16, String)> {
        let mut head = String::new();
        loop {
            match &*self.line()? {
                "" => break,
                line => head = head + line + "\n",
            }
        }
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Ok((status.ok_or(io::ErrorKind::InvalidData)?, head))
    }

    /// Reads a whole response.
    pub fn answer(&mut self, is_head: bool) -> io::Result<Answer> {
        let (status, head) = self.head()?;
        let mut answer = Answer { status, head, body: Vec::new() };
        if is_head || matches!(status, 204 | 304) {
            return Ok(answer);
        }
        if answer.header("transfer-encoding") == Some("chunked") {
            loop {
                let length = usize::from_str_radix(&self.line()?, 16).unwrap();
                answer.body.extend(self.taken(length)?);
                assert_eq!(self.line()?, "");
                if length == 0 {
                    return Ok(answer);
                }
            }
        }
        match answer.header("content-length").map(|length| length.parse().unwrap()) {
            Some(length) => answer.body = self.taken(length)?,
            None => {
                while self.more().is_ok() {}
                answer.body = std::mem::take(&mut self.read);
            }
        }
        Ok(answer)
    }

    /// A request of a target, and its response, if it comes.
    pub fn try_get(&mut self, target: &str) -> io::Result<Answer> {
        self.stream
            .write_all(format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n\r\n").as_bytes())?;
        self.answer(false)
    }

    /// A request by these bytes, and its response.
    pub fn ask(&mut self, bytes: &[u8]) -> Answer {
        self.send(bytes);
        self.answer(bytes.starts_with(b"HEAD ")).unwrap()
    }

    pub fn get(&mut self, target: &str) -> Answer {
        self.ask(format!("GET {target} HTTP/1.1\r\nHost: a.example\r\n\r\n").as_bytes())
    }

    pub fn post(&mut self, target: &str, body: &[u8]) -> Answer {
        let length = body.len();
        let head = format!(
            "POST {target} HTTP/1.1\r\nHost: a.example\r\nContent-Length: {length}\r\n\r\n"
        );
        self.ask(&[head.as_bytes(), body].concat())
    }
}

/// One request on a connection of its own.
pub fn get(address: SocketAddr, target: &str) -> Answer {
    Client::new(address).get(target)
}
