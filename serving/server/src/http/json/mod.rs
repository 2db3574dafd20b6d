//! Requests and responses in JSON: fields, and elements of tensors.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod fields;
