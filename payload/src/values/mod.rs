//! Values on their way between the host and Python.

pub(crate) mod arguments;
pub(crate) mod arrays;
pub(crate) mod buffers;
pub(crate) mod plain;
pub(crate) mod tensors;
