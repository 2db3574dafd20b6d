//! When interpreters import modules, and the profile of the modules that a program's work needs.

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
    /// Modules that the profile names are imported when something of them is used. When a module is first needed that the
    /// recorded work did not need, everything is imported that plain Python would have imported by then. `docs/imports.md`
    /// describes the visible effects. For CPython 3.10 to 3.14.
    Profile(ImportProfile),
}

/// The modules that a program imports, in plain Python's order, and those of them that its work needs.
///
/// [`Builder::record_imports`](crate::Builder::record_imports) makes one, and a package may carry one
/// ([`Archive::imports`](crate::package::Archive::imports)). It names modules but no paths, the version of Python, and the
/// releases of the packages that were imported. Interpreters of another Python ignore it: a warning of `tracing` says so when
/// a pool is built. An interpreter that imports another release of one of the packages goes on as plain Python from there on,
/// also with a warning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportProfile(Arc<Contents>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Contents {
    /// The releases with which the profile was recorded.
    releases: Vec<Release>,
    /// Packages whose own modules are imported where their statements stand.
    eager: Vec<String>,
    modules: Vec<Module>,
}

/// A module of no package, and the folder with the metadata of its distribution, which lies beside it: `torch` and
/// `torch-2.11.0.dist-info`. `python` has a version, such as `3.11`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Release {
    module: String,
    folder: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Module {
    name: String,
    is_needed: bool,
}

/// The name under which the version of Python stands among the releases. No package has it: it is the standard library's.
const PYTHON: &str = "python";

/// The first line of a profile.
const HEAD: &str = "hydrozoa imports 1";

impl ImportProfile {
    /// Reads a profile that [`ImportProfile::save`] has written.
    ///
    /// # Errors
    ///
    /// [`Error::Configuration`] for a file that cannot be read, or is not a profile.
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
        self.0.modules.iter().filter(|module| module.is_needed).map(|module| &*module.name)
    }

    /// The modules that plain Python imports and the work does not need.
    pub fn left_out(&self) -> impl Iterator<Item = &str> {
        self.0.modules.iter().filter(|module| !module.is_needed).map(|module| &*module.name)
    }

    /// The packages whose modules are imported where the package's statements stand, since the work depends on effects of that.
    pub fn eager(&self) -> impl Iterator<Item = &str> {
        self.0.eager.iter().map(|name| &**name)
    }

    /// The version of Python that it was recorded with, such as `3.11`.
    pub fn python_version(&self) -> Option<&str> {
        let python = self.0.releases.iter().find(|release| release.module == PYTHON);
        python.map(|release| &*release.folder)
    }

    /// The same for Python 3.`minor` and these modules with the folders of their metadata.
    pub(crate) fn with_releases(&self, minor: u8, releases: Vec<(String, String)>) -> Self {
        let python = (PYTHON.to_owned(), format!("3.{minor}"));
        let releases = [python].into_iter().chain(releases);
        let releases = releases.map(|(module, folder)| Release { module, folder }).collect();
        Self(Arc::new(Contents { releases, ..(*self.0).clone() }))
    }

    /// The same with these packages imported where their statements stand.
    pub(crate) fn with_eager(&self, packages: &[String]) -> Self {
        Self(Arc::new(Contents { eager: packages.to_vec(), ..(*self.0).clone() }))
    }

    /// A profile of the modules that plain Python imports in this order, of which `needed` are enough.
    pub(crate) fn new(imported: Vec<String>, needed: Vec<String>) -> Self {
        let known: HashSet<String> = imported.iter().cloned().collect();
        let enough: HashSet<String> = needed.iter().cloned().collect();
        let further = needed.into_iter().filter(|name| !known.contains(name));
        let modules = imported.into_iter().map(|name| {
            let is_needed = enough.contains(&name);
            Module { name, is_needed }
        });
        let modules = modules.chain(further.map(|name| Module { name, is_needed: true })).collect();
        Self(Arc::new(Contents { releases: Vec::new(), eager: Vec::new(), modules }))
    }
}

/// The text of the file.
impl fmt::Display for ImportProfile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(formatter, "{HEAD}")?;
        for release in &self.0.releases {
            writeln!(formatter, "= {} {}", release.module, release.folder)?;
        }
        for package in &self.0.eager {
            writeln!(formatter, "! {package}")?;
        }
        self.0.modules.iter().try_for_each(|module| {
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
        let (mut releases, mut eager, mut modules) = (Vec::new(), Vec::new(), Vec::new());
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let is_name = |name: &str| !name.is_empty() && !name.contains(char::is_whitespace);
            match *words {
                ["=", module, folder] if is_name(module) && is_name(folder) => {
                    releases.push(Release { module: module.to_owned(), folder: folder.to_owned() });
                }
                ["!", package] if is_name(package) => eager.push(package.to_owned()),
                [mark @ ("+" | "-"), name] if is_name(name) => {
                    modules.push(Module { name: name.to_owned(), is_needed: mark == "+" });
                }
                _ => {
                    return Err(Error::Configuration(format!(
                        "the line {line:?} is not `+ MODULE`, `- MODULE`, `! PACKAGE` or `= MODULE FOLDER`: record it again \
                         (Builder::record_imports)"
                    )));
                }
            }
        }
        Ok(Self(Arc::new(Contents { releases, eager, modules })))
    }
}

/// How an interpreter treats imports, if not as plain Python does.
#[derive(Clone, Debug)]
pub(crate) struct ImportMode {
    /// A name that `payload/python/guided_imports.py` knows.
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
                let here = format!("3.{minor}");
                match profile.python_version() {
                    Some(recorded) if recorded != here => {
                        tracing::warn!(
                            recorded,
                            python = here,
                            "the profile of imports is of another Python and is not used: record it with this one",
                        );
                        Ok(None)
                    }
                    _ => Ok(Some(Self::new("guided", profile.to_string()))),
                }
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
        let release = ("torch".to_owned(), "torch-2.11.0.dist-info".to_owned());
        let profile = profile.with_releases(11, vec![release]).with_eager(&["app".to_owned()]);
        assert_eq!(profile.eager().collect::<Vec<_>>(), ["app"]);
        assert_eq!(profile.python_version(), Some("3.11"));
        assert_eq!(profile.to_string().parse::<ImportProfile>().unwrap(), profile);
        // Other Pythons have other modules.
        let imports = Imports::Profile(profile);
        assert!(ImportMode::of(&imports, 11).unwrap().is_some());
        assert!(ImportMode::of(&imports, 12).unwrap().is_none());
    }

    #[test]
    fn what_is_no_profile_is_refused_with_its_line() {
        let fault = |text: &str| text.parse::<ImportProfile>().unwrap_err().to_string();
        assert!(fault("").contains("does not begin with"), "{}", fault(""));
        let text = format!("{HEAD}\n+ torch\n* os\n");
        assert!(fault(&text).contains("\"* os\" is not"), "{}", fault(&text));
        for line in ["+", "+ ", "+ a b", "= torch", "- a\tb", "", "= a b c"] {
            let text = format!("{HEAD}\n{line}\n");
            assert!(fault(&text).contains("is not `+ MODULE`"), "{line:?}: {}", fault(&text));
        }
    }
}
