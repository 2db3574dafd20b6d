//! Serves the models of [`hydrozoa_serve`] by the Open Inference Protocol v2, with Triton's extensions.
//!
//! A [`Service`] is what the protocols share: the models, whether they are ready, and how many requests are under way.

#![warn(missing_docs)]

mod audit;
mod classes;
mod descriptors;
pub mod grpc;
mod guard;
pub mod http;
mod log;
mod malloc;
mod memory;
mod metadata;
mod metrics;
mod page;
mod service;
mod shared_memory;
mod status;
mod streams;
mod tls;
mod tokens;
mod trace;

pub use audit::Client;
pub use descriptors::raise_descriptor_limit;
pub use guard::{HostError, Hosts};
pub use hydrozoa_serve::{
    Defaults, LoadError, ModelImports, Server, Watch, is_model_folder, remove_left_folders,
};
pub use log::Log;
pub use malloc::keep_large_blocks;
pub use service::{Control, Permit, Service, Settings};
pub use streams::flush_streams_within;
pub use tls::{Tls, TlsError};
pub use tokens::{TokenError, Tokens};
