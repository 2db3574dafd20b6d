//! Serves models on many CPython interpreters in one process: repositories in Triton's layout, Triton's Python models, packages,
//! and batching. The crate contains no network code.
//!
//! ```no_run
//! use hydrozoa_models::{Request, Server};
//!
//! # fn f() -> Result<(), Box<dyn std::error::Error>> {
//! let server = Server::new(|| hydrozoa::Pool::builder().venv("venv"));
//! server.add_repository("models");
//! server.load("resnet")?;
//! let model = server.model("resnet", None)?;
//! let (sender, events) = std::sync::mpsc::channel();
//! let ticket = model.infer(Request::default(), move |event| drop(sender.send(event)));
//! println!("{:?}", events.recv()?.response);
//! # drop(ticket);
//! # Ok(()) }
//! ```
//!
//! A model's instances are interpreters: each has its own GIL, and the code of libraries is in memory once. A request's
//! inputs become Python's own memory. An output is sent from the array that the model made, unless the model keeps it.
//!
//! | files | hold |
//! |---|---|
//! | `escaping`, `request` | texts of others as one line; requests, responses and failures |
//! | `config`, `figures` | configurations, and what they mean for a model; counters, metrics and the work of instances |
//! | `execution`, `host` | limits of time; what a model may ask of its server |
//! | `queue` | requests that wait, alone or in sequences, and requests under way |
//! | `load`, `python` | how a version is loaded; Python models and packages, and what crosses to them |
//! | `hosted`, `instance`, `repository` | instances, under this crate's queue or another server's; where models lie |
//! | `model` | a version of a model |
//! | `server` | all models of a process |
//!
//! A file uses those above it in this table and in its own row. `tests/tests/tidy/rows.rs` reads it.

#![warn(missing_docs)]

pub mod config;
mod escaping;
mod execution;
mod figures;
pub mod host;
pub mod hosted;
mod instance;
mod load;
mod model;
mod python;
mod queue;
mod repository;
mod request;
mod server;

pub use config::limits::{Defaults, ModelImports};
pub use escaping::escaped;
pub use figures::{
    BatchStatistics, Failures, InstanceState, Latencies, Latency, Metrics, PrometheusText,
    Statistics,
};
pub use load::LoadError;
pub use model::{Model, Ticket};
pub use repository::{is_model_folder, remove_left_folders};
pub use request::{
    Code, CorrelationId, DataType, Event, Failure, Input, Output, Parameter, Parameters, Request,
    Response, decode_bytes, encode_bytes,
};
pub use server::{Changes, Chosen, Indexed, ModelState, Server, Watch};
