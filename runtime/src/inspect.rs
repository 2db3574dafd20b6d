//! What a native library would be to an interpreter, told without loading it.

use std::path::Path;

use hydrozoa_loader::{Inspection, OpenFlags};

use crate::Result;
use crate::python::Installation;
use crate::torch::TorchPolicy;
use crate::torch_policy::Torch;

/// Says what the library at `file` is, whether an interpreter of `python` has a replica of its own
/// of it and why, and what that replica costs.
///
/// libpython is loaded for this, once for each call and without starting an interpreter, since a
/// library that uses its symbols has to be replicated with it.
///
/// # Errors
/// The file cannot be read, is no ELF file, or is one that the loader refuses; libpython cannot be
/// loaded; torch's release is unknown and `torch` is [`TorchPolicy::Shared`].
pub fn inspect(file: &Path, python: &Installation, torch: TorchPolicy) -> Result<Inspection> {
    let place = Torch::settle(torch, python, false)?.place("inspection", None)?;
    // SAFETY: an installation names a libpython, whose state is all in its own variables; it may be loaded
    // several times.
    unsafe { place.domain.open(python.library(), OpenFlags::LAZY | OpenFlags::GLOBAL)? };
    Ok(place.domain.inspect(file)?)
}
