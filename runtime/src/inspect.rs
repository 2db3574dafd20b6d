//! The class of a native library in an interpreter, decided without loading it.

use std::path::Path;

use hydrozoa_loader::{Inspection, OpenFlags};

use crate::Result;
use crate::libraries::LibraryRules;
use crate::python::{Installation, Search};
use crate::torch::TorchPolicy;
use crate::torch_policy::Torch;

/// Inspects the library at `file`: what it contains, whether an interpreter of `python` gets its own
/// replica of it and why, and what a replica costs.
///
/// Each call loads libpython once, without starting an interpreter: a library that uses libpython's
/// symbols is replicated with it.
///
/// # Errors
///
/// The file cannot be read, is not an ELF file, or is refused by the loader; libpython cannot be
/// loaded; torch's release is unknown and `torch` is [`TorchPolicy::Shared`].
pub fn inspect(
    file: &Path,
    python: &Installation,
    torch: TorchPolicy,
    rules: &LibraryRules,
) -> Result<Inspection> {
    let place = Torch::settle(torch, python, Search::Pool(&[]), false)?.place(
        "inspection",
        rules,
        None,
        None,
    )?;
    // SAFETY: an installation names a libpython, whose state is all in its own variables; it may be loaded
    // several times.
    unsafe { place.domain.open(python.library(), OpenFlags::LAZY | OpenFlags::GLOBAL)? };
    Ok(place.domain.inspect(file)?)
}
