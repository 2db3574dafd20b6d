//! Shared libraries that lie in an archive.
//!
//! Each becomes a file of the loader's own. One that is stored as it is, from a page's start, is mapped from the archive
//! ([`hydrozoa_loader::provide_part`]), and any other from a memory file ([`hydrozoa_loader::provide`]). The file's path shows where
//! the library lies in the archive, so that rules, RPATHs and the libraries beside it (`*.libs`) mean
//! what they mean on disk. Each interpreter has its own replica, unless a rule shares the library.

use super::Archive;
use crate::Result;
use crate::sealed;
use hydrozoa_loader::Container;
use std::path::{Path, PathBuf};
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
        let container = self.container();
        for library in self.libraries() {
            let (path, bytes) = (root.join(library), self.read(library)?);
            let part = container.as_ref().zip(self.place(library));
            let mapped = part.is_some_and(|((container, start), range)| {
                let range = start + range.start..start + range.end;
                container.bytes().get(range.clone()) == Some(&*bytes)
                    && hydrozoa_loader::provide_part(&path, container, range).is_ok()
            });
            if !mapped {
                hydrozoa_loader::provide(&path, &bytes)?;
            }
        }
        // If two threads race, one's paths win; equal bytes are one file of the loader's.
        Ok(provided.0.get_or_init(|| root).join(record))
    }

    /// The file that holds the archive, and where the archive begins in it; none for an archive that came from memory. The
    /// file at its path may be another one by now.
    fn container(&self) -> Option<(Container, usize)> {
        let path = Path::new(self.label());
        match sealed::package_in(path) {
            Some(place) => Some(place),
            None => Some((Container::open(path).ok()?, 0)),
        }
    }
}
