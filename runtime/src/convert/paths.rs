//! Paths and strings of the operating system. They are bytes, not always UTF-8: Python holds a byte that is
//! not UTF-8 as a lone surrogate (`surrogateescape`, PEP 383).

use super::sequence::instance_of;
use super::{FromPython, Inspected, ToPython};
use crate::Result;
use crate::object::Object;
use crate::payload::table::Kind;
use crate::session::Session;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

impl ToPython for OsStr {
    /// A `str`, as `os.fsdecode` makes it.
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        match self.to_str() {
            Some(text) => text.to_python(session),
            None => session.import("os")?.call_method("fsdecode", (self.as_bytes(),)),
        }
    }
}

impl ToPython for OsString {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        self.as_os_str().to_python(session)
    }
}

impl FromPython<'_> for OsString {
    /// From a `str`, as `os.fsencode` makes it.
    fn from_python(object: &Object<'_>) -> Result<Self> {
        let inspected = match Inspected::new(object) {
            Ok(inspected) => inspected,
            Err(error) => return with_surrogates(object).unwrap_or(Err(error)),
        };
        match inspected.kind() {
            Kind::STR => Ok(Self::from_vec(inspected.copied()?)),
            _ => Err(inspected.unexpected("str")),
        }
    }
}

/// The bytes of a `str` that was not inspected because it has no UTF-8; `None` for any other object.
fn with_surrogates(object: &Object<'_>) -> Option<Result<OsString>> {
    let session = object.session();
    let is_str = session
        .import("builtins")
        .and_then(|builtins| instance_of(object, &builtins.getattr("str")?))
        .unwrap_or(false);
    let encode = || session.import("os")?.call_method("fsencode", (object,))?.extract();
    is_str.then(|| encode().map(OsString::from_vec))
}

impl ToPython for Path {
    /// A `pathlib.Path`.
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        session.import("pathlib")?.call_method("Path", (self.as_os_str(),))
    }
}

impl ToPython for PathBuf {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        self.as_path().to_python(session)
    }
}

impl FromPython<'_> for PathBuf {
    /// From what Python's own functions take as a path: `str`, `bytes`, or an object with `__fspath__`.
    fn from_python(object: &Object<'_>) -> Result<Self> {
        let inspected = match Inspected::new(object) {
            Ok(inspected) => inspected,
            Err(_) => return OsString::from_python(object).map(Self::from),
        };
        match inspected.kind() {
            Kind::STR => OsString::from_python(object).map(Self::from),
            Kind::BYTES => Ok(OsString::from_vec(inspected.copied()?).into()),
            Kind::OTHER if object.getattr("__fspath__").is_ok() => {
                let path = object.session().import("os")?.call_method("fspath", (object,))?;
                // `fspath` returns str or bytes only.
                Self::from_python(&path)
            }
            _ => Err(inspected.unexpected("a path")),
        }
    }
}
