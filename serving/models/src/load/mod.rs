//! Loads a version of a model: its interpreters, its configuration, and what its instances run.

mod error;
mod interpreters;
mod load_thread;
pub(crate) mod package;
mod source;
mod warmup;

pub use error::LoadError;
pub(crate) use interpreters::{CLOSE, Interpreters, Settings};
pub(crate) use load_thread::LoadThread;
pub(crate) use source::{Content, ENVIRONMENT, Prepared, Source, environment};
pub(crate) use warmup::{EXAMPLE, Samples};
