//! Where the storages of a package go.

use crate::Result;
use crate::convert::ToPython;
use crate::object::Object;
use crate::session::Session;
use std::collections::BTreeMap;

/// Where storages are loaded to, as `map_location` of `torch.load` says it.
///
/// (A function, which torch also takes, is for Python: `importer.load_pickle` takes one. What it
/// returns is its interpreter's own.)
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MapLocation {
    /// All of them to one device: `cpu`, `cuda`, `cuda:1`.
    Everything(String),
    /// By the device that they were saved on; those not named stay on theirs.
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
