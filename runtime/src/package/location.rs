//! Where the storages of a package go.

use crate::Result;
use crate::convert::ToPython;
use crate::object::Object;
use crate::session::Session;
use std::collections::BTreeMap;

/// Where storages are loaded to, in the terms of `map_location` of `torch.load`.
///
/// torch also accepts a function. Only Python can pass one: `importer.load_pickle` takes it. The
/// storages that it returns belong to their interpreter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MapLocation {
    /// All storages go to one device: `cpu`, `cuda`, `cuda:1`.
    Everything(String),
    /// Pairs of the device that a storage was saved on and its new device. Others stay on theirs.
    Each(BTreeMap<String, String>),
}

impl From<&str> for MapLocation {
    fn from(device: &str) -> Self {
        Self::Everything(device.to_owned())
    }
}

impl From<String> for MapLocation {
    fn from(device: String) -> Self {
        Self::Everything(device)
    }
}

impl<const N: usize> From<[(&str, &str); N]> for MapLocation {
    fn from(pairs: [(&str, &str); N]) -> Self {
        Self::Each(pairs.map(|(from, to)| (from.to_owned(), to.to_owned())).into())
    }
}

impl ToPython for MapLocation {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        match self {
            Self::Everything(device) => device.to_python(session),
            Self::Each(pairs) => pairs.to_python(session),
        }
    }
}
