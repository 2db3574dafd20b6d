//! One connection.

use std::net::Ipv4Addr;
use std::sync::Arc;

use anyhow::{Context, Result};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{HeaderMap, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use crate::cases::{Body, Cases, JSON_LENGTH, Style};

/// Where requests go.
#[derive(Clone)]
pub struct Target {
    port: u16,
    path: Arc<str>,
    content: &'static str,
}

impl Target {
    pub fn new(port: u16, path: &str, cases: &Cases) -> Result<Self> {
        let content = match cases.style() {
            Style::Base64 => "application/json",
            Style::Binary | Style::Raw => "application/octet-stream",
        };
        let target = Self { port, path: path.into(), content };
        // Sending one request checks the parts that all requests share.
        target.request(&cases.bodies[0])?;
        Ok(target)
    }

    fn request(&self, body: &Body) -> Result<Request<Full<Bytes>>> {
        let mut request = Request::post(&*self.path);
        request = request.header("host", "localhost").header("content-type", self.content);
        if let Some(length) = body.json {
            request = request.header(JSON_LENGTH, length);
        }
        request.body(Full::new(body.bytes.clone())).context("making a request")
    }

    pub async fn connect(&self) -> Result<Connection> {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await;
        let stream = stream.context("connecting")?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        // Its error is also that of the request under way.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Connection { target: self.clone(), sender })
    }
}

/// A connection that is kept alive.
pub struct Connection {
    target: Target,
    sender: SendRequest<Full<Bytes>>,
}

/// An answer.
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Connection {
    /// Sends a request and reads its answer.
    pub async fn ask(&mut self, body: &Body) -> Result<Answer> {
        let request = self.target.request(body)?;
        self.sender.ready().await.context("the server has closed the connection")?;
        let answer = self.sender.send_request(request).await.context("sending a request")?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await.context("reading an answer")?.to_bytes();
        Ok(Answer { status: head.status, headers: head.headers, body })
    }

    /// Whether the server still takes requests here.
    pub fn is_open(&self) -> bool {
        !self.sender.is_closed()
    }
}
