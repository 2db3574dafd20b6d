//! Messages between the program and its interpreters.

mod channel;
mod companion;
mod queue;

pub(crate) use companion::Companion;
pub use queue::{hz_message, hz_queue};
