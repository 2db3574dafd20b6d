//! Serves models: repositories as Triton has them, Triton's Python models, packages, and batching, on many CPython interpreters in
//! one process. There is no network in it.
//!
//! ```no_run
//! use hydrozoa_serve::{Request, Server};
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
//! inputs become Python's own memory, and an output is sent from the array that the model has made, unless the model keeps
//! it.

#![warn(missing_docs)]

mod activity;
mod apart;
mod check;
pub mod config;
mod datatype;
mod execution;
mod failure;
mod folders;
mod health;
mod homes;
pub mod host;
pub mod hosted;
mod interpreters;
mod keeper;
mod limits;
mod load;
mod mail;
mod metrics;
mod model;
mod overrides;
mod own;
mod package;
mod pending;
mod placement;
mod python;
mod queue;
mod readiness;
mod recent;
mod request;
mod schedule;
mod sequences;
mod server;
mod source;
mod statistics;
mod tally;
mod wanted;
mod warmup;
mod watch;
mod watchdog;
mod words;

pub use activity::InstanceState;
pub use datatype::DataType;
pub use failure::{Code, Failure};
pub use folders::remove_left_folders;
pub use homes::is_model_folder;
pub use limits::{Defaults, ModelImports};
pub use load::LoadError;
pub use metrics::Metrics;
pub use model::{Model, Ticket};
pub use recent::Latency;
pub use request::{
    CorrelationId, Event, Input, Output, Parameter, Parameters, Request, Response, decode_bytes,
    encode_bytes,
};
pub use server::{Indexed, Server, State};
pub use statistics::{BatchStatistics, Failures, Latencies, Statistics};
pub use watch::{Changes, Watch};
pub use words::escaped;
