//! Serves the models of [`hydrozoa_serve`] by the Open Inference Protocol v2, with Triton's extensions.
//!
//! A [`Service`] is what the protocols share: the models, whether they are ready, and how many requests are under way.

#![warn(missing_docs)]

mod classes;
pub mod grpc;
pub mod http;
mod metadata;
mod metrics;
mod service;

pub use hydrozoa_serve::{Defaults, LoadError, ModelImports, Server, Watch};
pub use service::{Control, Permit, Service, Settings};
