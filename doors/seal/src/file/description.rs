//! Facts of a sealed application that its bytes do not tell.

use serde::{Deserialize, Serialize};

/// All of them.
pub(crate) struct Description {
    /// The sealer with its version.
    pub created_by: String,
    /// The version of CPython, such as `3.12.8`.
    pub python: String,
    /// The installed packages, in order of their names.
    pub distributions: Vec<Distribution>,
    /// The members that are libraries of the machine on which it was sealed.
    pub system: Vec<SystemLibrary>,
    /// The paths that were left out on purpose.
    pub left_out: Vec<String>,
}

/// An installed package, as its metadata tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Distribution {
    pub name: String,
    pub version: String,
    /// An expression of SPDX or any text; empty if the metadata has none.
    pub license: String,
}

/// A library of the machine on which the application was sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SystemLibrary {
    pub soname: String,
    /// The file's name alone: its directory would differ between machines.
    #[serde(rename = "path")]
    pub file: String,
}
