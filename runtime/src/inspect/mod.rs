//! The class of native libraries in an interpreter, and their cost for a further one, without loading them.

mod distributions;
mod survey;

use std::path::{Path, PathBuf};

use hydrozoa_loader::{Inspection, OpenFlags};

use crate::Result;
use crate::domain::InterpreterDomain;
use crate::libraries::LibraryRules;
use crate::python::Installation;

pub use survey::{Survey, Surveyed};

/// Inspects the library at `file`: what it contains, whether an interpreter of `python` gets its own
/// replica of it and why, and what a replica costs.
///
/// Each call loads libpython once, without starting an interpreter: a library that uses libpython's
/// symbols is replicated with it.
///
/// # Errors
///
/// The file cannot be read, is not an ELF file, or is refused by the loader; libpython cannot be
/// loaded.
pub fn inspect(file: &Path, python: &Installation, rules: &LibraryRules) -> Result<Inspection> {
    Ok(place(python, rules)?.domain.inspect(file)?)
}

/// Inspects each library below `places`, which are directories or files: its class in an interpreter of `python`, and
/// what a further interpreter costs that loads it. A file that cannot be inspected is in [`Survey::failed`].
///
/// Nothing but libpython is loaded, as for [`inspect`].
///
/// # Errors
///
/// A place cannot be read; libpython cannot be loaded.
pub fn survey(places: &[PathBuf], python: &Installation, rules: &LibraryRules) -> Result<Survey> {
    Survey::of(&place(python, rules)?.domain, places)
}

/// A domain as an interpreter has it once its libpython is loaded.
fn place(python: &Installation, rules: &LibraryRules) -> Result<InterpreterDomain> {
    let place = InterpreterDomain::new("inspection", python, rules, &[], None, None, None)?;
    // SAFETY: an installation names a libpython, whose state is all in its own variables; it may be loaded
    // several times.
    unsafe { place.domain.open(python.library(), OpenFlags::LAZY | OpenFlags::GLOBAL)? };
    Ok(place)
}
