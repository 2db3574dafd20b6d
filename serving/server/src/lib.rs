//! Serves the models of [`hydrozoa_models`] over the Open Inference Protocol v2, with Triton's extensions.
//!
//! The protocols share a [`Service`]: the models, whether they are ready, and how many requests are under way.
//!
//! | files | hold |
//! |---|---|
//! | `process`, `guard` | the process that serves; what keeps it reachable, whatever clients send |
//! | `access`, `figures`, `inference`, `service` | who may ask; what the server says of itself; a request on its way to a model and back; what the protocols share |
//! | `grpc`, `http` | the protocols |

#![warn(missing_docs)]

mod access;
mod figures;
pub mod grpc;
mod guard;
pub mod http;
mod inference;
mod process;
mod service;

pub use access::{Client, Tls, TlsError, TokenError, Tokens};
pub use guard::{HostError, Hosts, Met, Pace};
pub use hydrozoa_models::{
    Defaults, LoadError, ModelImports, Server, Watch, is_model_folder, remove_left_folders,
};
pub use process::{Log, flush_streams_within, keep_large_blocks, raise_descriptor_limit};
pub use service::{Control, Permit, Service, Settings};
