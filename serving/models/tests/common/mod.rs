//! A repository of models in a folder of its own, and requests to it.

// Each test file uses some of it.
#![allow(dead_code, reason = "each test file is a crate of its own, and uses some of this")]

pub mod packages;
mod repository;

use bytes::BytesMut;
use hydrozoa_models::{DataType, Event, Failure, Input, Model, Output, Request, Response};
pub use repository::*;
use std::sync::Arc;
use std::sync::mpsc::channel;

impl Repository {
    /// Writes a model and loads it.
    pub fn model(&self, name: &str, config: &str, model: &str) -> Arc<Model> {
        self.load(name, config, model);
        self.server.model(name, None).unwrap()
    }
}

/// A request with one input of 32-bit floats named IN, for one place of a batch.
pub fn floats(values: &[f32]) -> Request {
    let data = BytesMut::from(&*float_bytes(values));
    input("IN", DataType::Fp32, &[1, values.len() as i64], data)
}

pub fn input(name: &str, data_type: DataType, shape: &[i64], data: BytesMut) -> Request {
    let input = Input { name: name.to_owned(), data_type, shape: shape.to_vec(), data };
    Request { inputs: vec![input], ..Request::default() }
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
    floats_of(&output.data)
}

/// The floats of the only output.
pub fn answer(model: &Model, request: Request) -> Vec<f32> {
    let response = response(model, request).unwrap();
    assert_eq!(response.outputs.len(), 1);
    as_floats(&response.outputs[0])
}
