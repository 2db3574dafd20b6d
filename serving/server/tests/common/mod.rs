//! A server with models in a folder of its own, and clients of it.

// Each test file uses some of it.
#![allow(dead_code, reason = "each test file is a crate of its own, and uses some of this")]

#[path = "../../../models/tests/common/repository.rs"]
mod repository;
pub mod shared_object;

use hydrozoa_server::http::{Address, Limits, Listener, Threads, router, serve};
use hydrozoa_server::{Control, Service, Settings, Tls};
pub use repository::*;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub struct Site {
    repository: Repository,
    pub service: Service,
    pub address: SocketAddr,
    runtime: Runtime,
    end: Option<oneshot::Sender<Duration>>,
    served: Option<JoinHandle<usize>>,
}

impl Site {
    pub fn new() -> Self {
        Self::with(Limits::default(), |settings| settings.control = Control::Clients)
    }

    pub fn with(limits: Limits, change: impl FnOnce(&mut Settings)) -> Self {
        Self::with_tls(None, limits, change)
    }

    pub fn with_tls(tls: Option<Tls>, limits: Limits, change: impl FnOnce(&mut Settings)) -> Self {
        let repository = Repository::new();
        let mut settings = Settings::default();
        change(&mut settings);
        let service = Service::new(repository.server.clone(), settings);
        service.open();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let listener = Address::Tcp("127.0.0.1".to_owned(), 0);
        let listener = runtime.block_on(Listener::bind(&listener)).unwrap();
        let address = listener.local_addr().unwrap();
        let listener = match tls {
            Some(tls) => listener.with_tls(tls),
            None => listener,
        };
        let (end, ends) = oneshot::channel();
        let router = router(&service, &limits);
        let threads = Threads::start(2).unwrap();
        let served = runtime.spawn(async move {
            let end = async { ends.await.unwrap_or_default() };
            serve(listener, router, &limits, &threads, end).await
        });
        Self { repository, service, address, runtime, end: Some(end), served: Some(served) }
    }

    pub fn path(&self) -> &Path {
        self.repository.path()
    }

    /// Writes a version of a model.
    pub fn write(&self, name: &str, version: i64, config: &str, model: &str) {
        self.repository.write(name, version, config, model);
    }

    /// Writes a model and loads it.
    pub fn model(&self, name: &str, config: &str, model: &str) {
        self.repository.load(name, config, model);
    }

    /// Takes no further connections, and waits for those that there are. Returns how many had a request at the end.
    pub fn end(&mut self, patience: Duration) -> usize {
        let _ = self.end.take().unwrap().send(patience);
        self.runtime.block_on(self.served.take().unwrap()).unwrap()
    }

    pub fn get(&self, path: &str) -> Answer {
        self.request("GET", path, &[], b"")
    }

    pub fn post(&self, path: &str, body: impl AsRef<[u8]>) -> Answer {
        self.request("POST", path, &[], body.as_ref())
    }

    /// A request on a connection of its own.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let mut connection = self.connect();
        let more: String =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {}\r\n{more}\r\n",
            body.len()
        );
        connection.write_all(head.as_bytes()).unwrap();
        // The server may have answered and closed before it has read all.
        drop(connection.write_all(body));
        Answer::read(&mut connection)
    }

    pub fn connect(&self) -> TcpStream {
        let connection = TcpStream::connect(self.address).unwrap();
        connection.set_read_timeout(Some(PATIENCE)).unwrap();
        connection
    }

    /// A connection with these bytes of a request.
    pub fn send(&self, bytes: impl AsRef<[u8]>) -> TcpStream {
        let mut connection = self.connect();
        connection.write_all(bytes.as_ref()).unwrap();
        connection
    }

    /// Sends bytes as they are, and reads until the server closes the connection.
    pub fn raw(&self, bytes: &[u8]) -> Vec<u8> {
        let mut connection = self.connect();
        // The server may have answered and closed before it has read all.
        drop(connection.write_all(bytes));
        let mut answer = Vec::new();
        drop(connection.read_to_end(&mut answer));
        answer
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        drop(self.end.take());
    }
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    /// Reads a response.
    pub fn read(connection: &mut impl Read) -> Self {
        let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            if let Some(answer) = Self::of(&bytes) {
                return answer;
            }
            match connection.read(&mut buffer) {
                Ok(length @ 1..) => bytes.extend_from_slice(&buffer[..length]),
                end => panic!("{end:?}: {}", String::from_utf8_lossy(&bytes)),
            }
        }
    }

    /// The first response of these bytes; `None` if they are not the whole of one.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = str::from_utf8(&bytes[..end]).ok()?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").unwrap_or((line, "")))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut answer = Self { status, headers, body: Vec::new() };
        let body = &bytes[end + 4..];
        answer.body = if answer.header("transfer-encoding") == Some("chunked") {
            unchunked(body)?
        } else {
            let length = answer.header("content-length").map_or(0, |text| text.parse().unwrap());
            body.get(..length)?.to_vec()
        };
        Some(answer)
    }

    pub fn header(&self, wanted: &str) -> Option<&str> {
        self.headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    /// The body as JSON of a response that says OK.
    pub fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// A response that says OK and nothing else.
    #[track_caller]
    pub fn ok_empty(&self) {
        let text = String::from_utf8_lossy(&self.body);
        assert!(self.status == 200 && text.is_empty(), "{}: {text}", self.status);
    }

    /// The message of a response that says that something is wrong.
    pub fn error(&self, status: u16) -> String {
        let text = String::from_utf8_lossy(&self.body);
        assert_eq!(self.status, status, "{text}");
        assert_eq!(self.header("content-type"), Some("application/json"));
        self.json()["error"].as_str().unwrap_or_else(|| panic!("no error: {text}")).to_owned()
    }
}

fn unchunked(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let end = body.windows(2).position(|window| window == b"\r\n")?;
        let length = usize::from_str_radix(str::from_utf8(&body[..end]).ok()?, 16).ok()?;
        if length == 0 {
            return Some(all);
        }
        all.extend_from_slice(body.get(end + 2..end + 2 + length)?);
        body = body.get(end + 2 + length + 2..)?;
    }
}

/// The head of a request with a body of so many bytes, on a connection that stays.
pub fn head(path: &str, length: usize) -> String {
    format!("POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n")
}

/// Such a request.
pub fn whole(path: &str, body: &str) -> String {
    head(path, body.len()) + body
}

/// A request with floats in JSON.
pub fn floats(shape: &[i64], data: &[f32]) -> Value {
    json!({ "inputs": [{ "name": "IN", "datatype": "FP32", "shape": shape, "data": data }] })
}

/// Answers with its inputs, by the names of the outputs in their order.
pub const ECHO: &str = "
import json

class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args['model_config'])
        self.names = [(i['name'], o['name']) for i, o in zip(config['input'], config['output'])]

    def execute(self, requests):
        responses = []
        for request in requests:
            wanted = request.requested_output_names()
            tensors = []
            for given, name in self.names:
                tensor = pb_utils.get_input_tensor_by_name(request, given)
                if tensor is None or name not in wanted:
                    continue
                if given == 'BF16':
                    tensors.append(pb_utils.Tensor.from_dlpack(name, tensor))
                else:
                    tensors.append(pb_utils.Tensor(name, tensor.as_numpy()))
            responses.append(pb_utils.InferenceResponse(tensors))
        return responses
";
