//! The profile of imports that a package carries.

use super::append::append;
use super::{Archive, PackageError};
use crate::imports::{ImportProfile, Imports};
use crate::{Error, Result};
use std::fs;
use std::path::Path;

/// The record. torch.package's own importer passes over folders of `.data` (`_add_file` in torch/package/package_importer.py).
const RECORD: &str = ".data/hydrozoa/imports";

impl Archive {
    /// When interpreters that serve this package import modules, for [`Builder::imports`](crate::Builder::imports): with the profile
    /// that the package carries, and [`Imports::Eager`] if it carries none. `hydrozoa package build --record-imports` makes packages
    /// with one.
    ///
    /// # Errors
    ///
    /// [`PackageError::Record`] for a record that is no profile, [`PackageError::Checksum`] for a damaged one.
    pub fn imports(&self) -> Result<Imports, PackageError> {
        if !self.contains(RECORD) {
            return Ok(Imports::Eager);
        }
        let profile = self.read_text(RECORD)?.parse::<ImportProfile>();
        profile.map(Imports::Profile).map_err(|error| PackageError::Record {
            package: self.label().to_owned(),
            record: RECORD.to_owned(),
            reason: format!("is no profile of imports: {error}"),
        })
    }
}

/// Puts a profile into a package that has none. The file is replaced at once: who has it open keeps the old one.
pub(super) fn add(file: &Path, profile: &ImportProfile) -> Result<()> {
    let partial = file.with_extension("partial");
    let added = append(file, &partial, RECORD, profile.to_string().as_bytes())
        .and_then(|()| fs::rename(&partial, file));
    added.map_err(|source| {
        drop(fs::remove_file(&partial));
        Error::Io { path: file.to_owned(), source }
    })
}
