//! The process that serves: its log, its descriptors, its memory, and the C library's streams at its end.

mod descriptors;
mod log;
mod malloc;
mod streams;

pub use descriptors::raise_descriptor_limit;
pub use log::Log;
pub use malloc::keep_large_blocks;
pub use streams::flush_streams_within;
