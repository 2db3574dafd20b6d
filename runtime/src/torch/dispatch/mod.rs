//! The dispatcher, seen per interpreter.
//!
//! libtorch has one dispatcher: one schema for an operator, one table of kernels. Every interpreter
//! registers its own Python kernels in it (1,500 at `import torch`), and its own replica's C++
//! kernels. Here each registration becomes the interpreter's part of one real registration: a
//! [`router`], which calls the kernel of the interpreter that the thread runs, under that
//! interpreter's GIL. An interpreter that registered nothing keeps what libtorch had before.

mod claim;
mod entry;
mod introspection;
mod keys;
mod legacy;
mod library;
mod owned;
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
        visibility::interpositions(member),
    ]
    .concat()
}

/// Takes back everything that an interpreter registered.
pub(super) fn forget(member: &Member) {
    if let Some(registry) = lock(&registry::REGISTRY).as_mut() {
        registry.forget(member);
    }
}
