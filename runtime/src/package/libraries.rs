//! Shared libraries that lie in an archive.
//!
//! Each becomes a file of the loader's own ([`hydrozoa_loader::provide`]) under a path that shows
//! where it lies in the archive, so that rules, RPATHs and the libraries beside it (`*.libs`) mean
//! what they mean on disk. What needs Python's symbols is then replicated for each interpreter and
//! what needs none is loaded once, as with any file.

use super::Archive;
use crate::Result;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where an archive's libraries are, once they have been provided.
#[derive(Debug, Default)]
pub(super) struct Libraries(OnceLock<PathBuf>);

/// Whether a record is a shared library by its name: `x.so`, `x.so.1.2`.
pub(super) fn is_library(record: &str) -> bool {
    let name = record.rsplit('/').next().unwrap_or(record);
    name.ends_with(".so") || name.contains(".so.")
}

impl Archive {
    /// The records that are shared libraries.
    pub fn libraries(&self) -> impl Iterator<Item = &str> {
        self.records().filter(|record| is_library(record))
    }

    /// The path by which the loader knows a library, and those beside it.
    pub(crate) fn library(&self, record: &str) -> Result<PathBuf> {
        // That the record is missing or damaged is said of it, not of another.
        self.size(record)?;
        let provided = self.provided();
        if let Some(root) = provided.0.get() {
            return Ok(root.join(record));
        }
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let root = PathBuf::from(format!("/<hydrozoa package {number}>"));
        for library in self.libraries() {
            hydrozoa_loader::provide(&root.join(library), &self.read(library)?)?;
        }
        // Of two threads that race, one's paths win; equal bytes are one file of the loader's.
        Ok(provided.0.get_or_init(|| root).join(record))
    }
}
