//! The server and its models as others see them: metadata, statistics, metrics, its status, and the page.

mod interpreter_memory;
pub(crate) mod metadata;
mod metrics;
pub(crate) mod page;
mod status;

pub(crate) use interpreter_memory::MemoryFigures;
