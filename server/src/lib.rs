//! Serves the models of [`hydrozoa_serve`] by the Open Inference Protocol v2, with Triton's extensions.
//!
//! A [`Service`] is what the protocols share: the models, whether they are ready, and how many requests are under way.

#![warn(missing_docs)]

mod classes;
pub mod grpc;
pub mod http;
mod malloc;
mod memory;
mod metadata;
mod metrics;
mod page;
mod service;
mod shared_memory;
mod status;
mod tls;
mod tokens;
mod trace;

pub use hydrozoa_serve::{Defaults, LoadError, ModelImports, Server, Watch};
pub use malloc::keep_large_blocks;
pub use service::{Control, Permit, Service, Settings};
pub use tls::{Tls, TlsError};
pub use tokens::{TokenError, Tokens};
