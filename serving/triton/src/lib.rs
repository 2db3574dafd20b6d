//! A backend for Triton: `libtriton_hydrozoa.so`, also in the place of `libtriton_python.so`.
//!
//! The server keeps its protocols, repositories, schedulers and metrics. Each instance of a Python model is an interpreter in the
//! server's process. hydrozoa-models (`hosted`) runs the models and gives them their view; docs/serving.md is the manual.
//!
//! | file | holds |
//! |---|---|
//! | `sys` | Triton's functions |
//! | `error` | failures, and where panics end |
//! | `datatype`, `log`, `parameter` | elements, the log, parameters |
//! | `metric` | metrics of models |
//! | `call` | calls of other models |
//! | `host` | what models may ask of the server |
//! | `settings` | which Python a model gets |
//! | `response`, `request` | what comes and goes |
//! | `state`, `backend`, `model`, `instance` | the functions that Triton calls |
//!
//! A file uses those above it in this table.

#![allow(
    clippy::missing_safety_doc,
    reason = "Triton calls the exported functions, by the rules of tritonbackend.h"
)]

mod backend;
mod call;
mod datatype;
mod error;
mod host;
mod instance;
mod log;
mod metric;
mod model;
mod parameter;
mod request;
mod response;
mod settings;
mod state;
mod sys;
