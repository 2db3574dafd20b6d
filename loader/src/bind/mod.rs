//! Binding: the definitions of an image's references, and the words that relocation writes for them.

pub(crate) mod binding;
pub(crate) mod plan;
pub(crate) mod prepared;
pub(crate) mod relocate;
pub(crate) mod scope;
