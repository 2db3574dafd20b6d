//! A repository of models in a folder of its own, and requests to it.

// Each test file uses some of it.
#![allow(dead_code, reason = "each test file is a crate of its own, and uses some of this")]

pub mod packages;

use bytes::BytesMut;
use hydrozoa_serve::{DataType, Event, Failure, Input, Model, Output, Request, Response, Server};
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

/// As long as any event is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Repository {
    folder: tempfile::TempDir,
    pub server: Server,
}

impl Repository {
    pub fn new() -> Self {
        let venv = std::env::var_os("HYDROZOA_TEST_VENV").unwrap_or_else(|| {
            panic!(
                "HYDROZOA_TEST_VENV is not set: this test needs a virtual environment with numpy. `cargo xtask test` makes \
                 one and runs all tests in it."
            )
        });
        let folder = tempfile::tempdir().unwrap();
        let server = Server::new(move || hydrozoa::Pool::builder().venv(&venv));
        server.add_repository(folder.path());
        Self { folder, server }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Writes a version of a model.
    pub fn write(&self, name: &str, version: i64, config: &str, model: &str) {
        let directory = self.path().join(name);
        fs::create_dir_all(directory.join(version.to_string())).unwrap();
        fs::write(directory.join("config.pbtxt"), config).unwrap();
        fs::write(directory.join(version.to_string()).join("model.py"), model).unwrap();
    }

    /// Writes a model and loads it.
    pub fn model(&self, name: &str, config: &str, model: &str) -> Arc<Model> {
        self.write(name, 1, config, model);
        self.server.load(name).unwrap_or_else(|error| panic!("{error}"));
        self.server.model(name, None).unwrap()
    }
}

impl Drop for Repository {
    fn drop(&mut self) {
        self.server.unload_all();
    }
}

/// A request with one input of 32-bit floats named IN, for one place of a batch.
pub fn floats(values: &[f32]) -> Request {
    let data: BytesMut = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    input("IN", DataType::Fp32, &[1, values.len() as i64], data)
}

pub fn input(name: &str, data_type: DataType, shape: &[i64], data: BytesMut) -> Request {
    let input = Input { name: name.to_owned(), data_type, shape: shape.to_vec(), data };
    Request { inputs: vec![input], ..Request::default() }
}

/// Waits until something is so.
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(120), "{what} has not come about");
        thread::sleep(Duration::from_millis(5));
    }
}

/// All events of a request.
pub fn events(model: &Model, request: Request) -> Vec<Event> {
    let (sender, events) = channel();
    let ticket = model.infer(request, move |event| drop(sender.send(event)));
    let mut all: Vec<Event> = Vec::new();
    while !all.last().is_some_and(|event| event.is_final) {
        all.push(events.recv_timeout(PATIENCE).expect("an event comes in time"));
    }
    assert!(ticket.has_ended());
    all
}

/// The one response of a request.
pub fn response(model: &Model, request: Request) -> Result<Response, Failure> {
    let mut responses: Vec<_> =
        events(model, request).into_iter().filter_map(|event| event.response).collect();
    assert_eq!(responses.len(), 1);
    responses.pop().unwrap()
}

/// The message of the error that a request ends with.
pub fn failure(model: &Model, request: Request) -> String {
    response(model, request).unwrap_err().message
}

pub fn as_floats(output: &Output) -> Vec<f32> {
    assert_eq!(output.data_type, DataType::Fp32);
    output.data.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// The floats of the only output.
pub fn answer(model: &Model, request: Request) -> Vec<f32> {
    let response = response(model, request).unwrap();
    assert_eq!(response.outputs.len(), 1);
    as_floats(&response.outputs[0])
}

/// A configuration with one input and one output of floats.
pub const FLOATS: &str = r#"
max_batch_size: 8
input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] } ]
"#;
