//! Shared libraries that lie in an archive.
//!
//! Each becomes a file of the loader's own ([`hydrozoa_loader::provide`]). The file's path shows where
//! the library lies in the archive, so that rules, RPATHs and the libraries beside it (`*.libs`) mean
//! what they mean on disk. Each interpreter has its own replica, unless a rule shares the library.

use super::Archive;
use crate::Result;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Where an archive's libraries are, after they were provided.
#[derive(Debug, Default)]
pub(super) struct Libraries(OnceLock<PathBuf>);

/// Whether a record has the name of a shared library: `x.so`, `x.so.1.2`.
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
        // A missing or damaged record is reported under its own name, not another's.
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
        // If two threads race, one's paths win; equal bytes are one file of the loader's.
        Ok(provided.0.get_or_init(|| root).join(record))
    }
}
