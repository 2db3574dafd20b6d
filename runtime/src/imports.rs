//! When interpreters import modules, and the profile that says which of them a program's work needs.

use crate::{Error, Result};
use std::collections::HashSet;
use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::{env, fs};

/// When the interpreters of a pool import modules ([`Builder::imports`](crate::Builder::imports)).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Imports {
    /// As the statements say: plain Python's semantics.
    #[default]
    Eager,
    /// Modules that the profile names are imported when something of them is used. The first need of a module that the
    /// recorded work did not need imports everything that plain Python would have imported by then. `docs/imports.md` says what
    /// programs see of it. For CPython 3.10 to 3.14.
    Profile(ImportProfile),
}

/// Which modules a program imports, in plain Python's order, and which of them its work needs.
///
/// [`Builder::record_imports`](crate::Builder::record_imports) makes one. It names modules and no paths, and fits other
/// versions of the same packages: what it does not know is imported when it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportProfile(Arc<[Module]>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Module {
    name: String,
    is_needed: bool,
}

/// The first line of a profile.
const HEAD: &str = "hydrozoa imports 1";

impl ImportProfile {
    /// Reads a profile that [`ImportProfile::save`] has written.
    ///
    /// # Errors
    ///
    /// [`Error::Configuration`] for a file that cannot be read, or that is no profile.
    pub fn load(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let fault = |text: String| {
            Error::Configuration(format!("the profile of imports {}: {text}", path.display()))
        };
        let text = fs::read_to_string(path).map_err(|error| fault(error.to_string()))?;
        text.parse().map_err(|error: Error| fault(error.to_string()))
    }

    /// Writes the profile as text, one module a line.
    ///
    /// # Errors
    ///
    /// [`Error::Configuration`] for a file that cannot be written.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let path = path.as_ref();
        fs::write(path, self.to_string()).map_err(|error| {
            Error::Configuration(format!("the profile of imports {}: {error}", path.display()))
        })
    }

    /// The modules that the work needs.
    pub fn needed(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|module| module.is_needed).map(|module| &*module.name)
    }

    /// The modules that plain Python imports and the work does not need.
    pub fn left_out(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter(|module| !module.is_needed).map(|module| &*module.name)
    }

    /// What plain Python imports in this order, of which `needed` are enough.
    pub(crate) fn new(imported: Vec<String>, needed: Vec<String>) -> Self {
        let known: HashSet<String> = imported.iter().cloned().collect();
        let enough: HashSet<String> = needed.iter().cloned().collect();
        let further = needed.into_iter().filter(|name| !known.contains(name));
        let modules = imported.into_iter().map(|name| {
            let is_needed = enough.contains(&name);
            Module { name, is_needed }
        });
        Self(modules.chain(further.map(|name| Module { name, is_needed: true })).collect())
    }
}

/// The text of the file.
impl fmt::Display for ImportProfile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{HEAD}")?;
        self.0.iter().try_for_each(|module| {
            formatter.write_char(if module.is_needed { '+' } else { '-' })?;
            writeln!(formatter, " {}", module.name)
        })
    }
}

impl FromStr for ImportProfile {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut lines = text.lines();
        if lines.next() != Some(HEAD) {
            return Err(Error::Configuration(format!(
                "it does not begin with the line {HEAD:?}: record it again (Builder::record_imports)"
            )));
        }
        let module = |line: &str| {
            let (mark, name) = line.split_once(' ')?;
            let is_needed = match mark {
                "+" => true,
                "-" => false,
                _ => return None,
            };
            let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
            is_name.then(|| Module { name: name.to_owned(), is_needed })
        };
        lines
            .map(|line| {
                module(line).ok_or_else(|| {
                    Error::Configuration(format!(
                        "the line {line:?} is not `+ MODULE` or `- MODULE`: record it again (Builder::record_imports)"
                    ))
                })
            })
            .collect::<Result<_>>()
            .map(Self)
    }
}

/// What an interpreter does about imports, if anything.
#[derive(Clone, Debug)]
pub(crate) struct ImportMode {
    /// A name that `payload/python/imports.py` knows.
    pub(crate) name: &'static str,
    /// The text of a profile.
    pub(crate) profile: String,
    /// Where compiled code is kept.
    pub(crate) folder: PathBuf,
}

impl ImportMode {
    /// Imports as ever, and notes their order.
    pub(crate) fn observing() -> Self {
        Self::new("observing", String::new())
    }

    /// Imports at first use only, with these modules in plain Python's order.
    pub(crate) fn recording(imported: &ImportProfile) -> Self {
        Self::new("recording", imported.to_string())
    }

    /// The mode that a setting means on Python 3.`minor`.
    ///
    /// # Errors
    ///
    /// [`Error::Configuration`] for a version that imports lazily itself.
    pub(crate) fn of(imports: &Imports, minor: u8) -> Result<Option<Self>> {
        match imports {
            Imports::Eager => Ok(None),
            Imports::Profile(profile) => {
                check(minor)?;
                Ok(Some(Self::new("guided", profile.to_string())))
            }
        }
    }

    fn new(name: &'static str, profile: String) -> Self {
        Self { name, profile, folder: folder().unwrap_or_default() }
    }
}

/// Whether imports on Python 3.`minor` can follow a profile.
///
/// # Errors
///
/// [`Error::Configuration`] for a version that imports lazily itself.
pub(crate) fn check(minor: u8) -> Result<()> {
    if minor < 15 {
        return Ok(());
    }
    Err(Error::Configuration(format!(
        "profiles of imports are for CPython 3.10 to 3.14, and this is 3.{minor}: use Imports::Eager, and Python's own lazy imports \
         (PEP 810: `lazy import`, sys.set_lazy_imports)"
    )))
}

/// The user's folder for compiled code of modules: `hydrozoa/imports` below XDG_CACHE_HOME or `~/.cache`.
fn folder() -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    cache.or_else(home).map(|cache| cache.join("hydrozoa/imports"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_read_as_it_was_written() {
        let strings = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let profile = ImportProfile::new(
            strings(&["torch", "torch._dynamo", "app"]),
            strings(&["torch", "app", "late"]),
        );
        assert_eq!(profile.needed().collect::<Vec<_>>(), ["torch", "app", "late"]);
        assert_eq!(profile.left_out().collect::<Vec<_>>(), ["torch._dynamo"]);
        assert_eq!(profile.to_string().parse::<ImportProfile>().unwrap(), profile);
    }

    #[test]
    fn what_is_no_profile_is_refused_with_its_line() {
        let fault = |text: &str| text.parse::<ImportProfile>().unwrap_err().to_string();
        assert!(fault("").contains("does not begin with"), "{}", fault(""));
        let text = format!("{HEAD}\n+ torch\n* os\n");
        assert!(fault(&text).contains("\"* os\" is not"), "{}", fault(&text));
    }
}
