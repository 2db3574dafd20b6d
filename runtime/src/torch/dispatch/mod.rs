//! The dispatcher, seen per interpreter.
//!
//! libtorch has one dispatcher, with one schema and one table of kernels for each operator. Every
//! interpreter registers its own Python kernels in it (1,500 at `import torch`) and the C++ kernels
//! of its replicas. Each registration becomes the interpreter's part of one real registration. What
//! is really registered is a [`router`]: it calls the kernel of the interpreter that the thread runs.
//! For an interpreter that registered nothing it calls what libtorch had before.

mod claim;
mod entry;
mod introspection;
mod keys;
mod legacy;
mod library;
mod owned;
mod readers;
mod registry;
mod router;
mod visibility;

use super::adapter::{Member, lock};
use super::exported::Answer;

/// What the domain of `member` interposes.
pub(super) fn interpositions(member: &'static Member) -> Vec<Answer> {
    [
        library::interpositions(member),
        legacy::interpositions(member),
        introspection::interpositions(member),
        readers::interpositions(),
        visibility::interpositions(member),
    ]
    .concat()
}

/// Removes everything that an interpreter registered.
pub(super) fn forget(member: &Member) {
    if let Some(registry) = lock(&registry::REGISTRY).as_mut() {
        registry.forget(member);
    }
    introspection::forget(member);
}
