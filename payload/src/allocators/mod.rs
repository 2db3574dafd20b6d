//! The memory of Python's objects, up to the interpreter's limit. That of its raw allocator is malloc's, which is the interpreter's own.

pub(crate) mod arenas;
pub(crate) mod frame_chunks;
pub(crate) mod memory_limit;
pub(crate) mod raw;
