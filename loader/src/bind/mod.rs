//! Binding: what an image's references stand for, and the words that relocation makes of that.

pub(crate) mod binding;
pub(crate) mod plan;
pub(crate) mod prepared;
pub(crate) mod relocate;
pub(crate) mod scope;
