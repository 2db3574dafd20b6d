//! The profile of imports that a package carries.

use super::{Archive, PackageError};
use crate::imports::{ImportProfile, Imports};

/// The record. torch.package's own importer passes over folders of `.data` (`_add_file` in torch/package/package_importer.py).
pub(super) const RECORD: &str = ".data/hydrozoa/imports";

impl Archive {
    /// When interpreters that serve this package import modules, for [`Builder::imports`](crate::Builder::imports): by the
    /// profile that the package carries, else [`Imports::Eager`]. `hydrozoa package build --record-imports` makes packages
    /// with one.
    ///
    /// # Errors
    ///
    /// [`PackageError::Record`] for a record that is not a profile, [`PackageError::Checksum`] for a damaged one.
    pub fn imports(&self) -> Result<Imports, PackageError> {
        if !self.contains(RECORD) {
            return Ok(Imports::Eager);
        }
        let profile = self.read_text(RECORD)?.parse::<ImportProfile>();
        profile.map(Imports::Profile).map_err(|error| PackageError::Record {
            package: self.label().to_owned(),
            record: RECORD.to_owned(),
            reason: format!("is not a profile of imports: {error}"),
        })
    }
}
