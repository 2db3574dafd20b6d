//! The environment of an interpreter that shall not use the process's.

use crate::{Error, Result};
use std::collections::BTreeMap;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Variables as they were given: pairs of name and value.
pub(crate) type Variables = Vec<(OsString, OsString)>;

/// An environment, each variable once.
#[derive(Clone, Debug)]
pub(crate) struct Environment(Vec<CString>);

impl Environment {
    /// Of several variables of one name the last counts.
    ///
    /// # Errors
    ///
    /// [`Error::Configuration`] for a name or a value that cannot be in an environment.
    pub(crate) fn new(variables: Variables) -> Result<Self> {
        let last: BTreeMap<OsString, OsString> = variables.into_iter().collect();
        last.into_iter().map(|(name, value)| entry(&name, &value)).collect::<Result<_>>().map(Self)
    }

    /// `NAME=value` of each variable.
    pub(crate) fn entries(&self) -> impl Iterator<Item = CString> {
        self.0.iter().cloned()
    }
}

fn entry(name: &OsStr, value: &OsStr) -> Result<CString> {
    let refused = |why: &str| {
        Error::Configuration(format!(
            "the environment has a variable {name:?}, {why}: change it or leave it out"
        ))
    };
    match name.as_bytes() {
        [] => return Err(refused("and a name has at least one byte")),
        // The first byte may be `=`, as in `std::env::vars_os`.
        [_, rest @ ..] if rest.contains(&b'=') => {
            return Err(refused("and a name ends before `=`"));
        }
        _ => {}
    }
    let bytes = [name.as_bytes(), b"=", value.as_bytes()].concat();
    CString::new(bytes).map_err(|_| refused("whose name or value contains a NUL byte"))
}
