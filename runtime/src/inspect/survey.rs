//! Every library below a directory, with its class and its cost.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use hydrozoa_loader::{Class, Cost, Domain, Inspection};

use super::distributions::Distributions;
use crate::{Error, Result};

/// The libraries below some directories, with what each costs a further interpreter that loads it.
#[derive(Debug)]
#[non_exhaustive]
pub struct Survey {
    /// The libraries: first those that each interpreter has for itself, the most costly first; then those that exist
    /// once, the largest first.
    pub libraries: Vec<Surveyed>,
    /// Files that are named as libraries and cannot be inspected, and directories that cannot be read.
    pub failed: Vec<(PathBuf, Error)>,
}

/// One library of a [`Survey`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Surveyed {
    /// The file, symbolic links resolved.
    pub path: PathBuf,
    /// The distribution that brought it; if no `RECORD` names it, the first part of its path below the directory.
    pub package: String,
    /// Its class when the libraries of the survey that need it are loaded, or when it is opened, if none needs it.
    pub class: Class,
    /// The rule or the symbol that decided the class.
    pub reason: String,
    /// The memory that each replica of it takes, and the memory that all share.
    pub cost: Cost,
    /// Libraries that it or its needs name and that were not found. Its class may be another one where something that is
    /// loaded before it brings them.
    pub missing: Vec<String>,
}

impl Surveyed {
    /// Whether each interpreter has its own.
    pub fn is_replicated(&self) -> bool {
        self.class == Class::Replicate
    }

    /// Bytes that exist once, however many interpreters load it.
    pub fn once(&self) -> usize {
        match self.class {
            Class::Replicate => self.cost.shared,
            Class::Commons | Class::System => self.cost.shared + self.cost.at_most(),
        }
    }
}

impl Survey {
    /// Inspects each library below `places` for code of `domain`. A place that is a file is one of the libraries.
    /// [`survey`](crate::survey) does so for an interpreter that has loaded nothing yet.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if a place does not exist or is a directory that cannot be read.
    pub fn of(domain: &Domain, places: &[PathBuf]) -> Result<Survey> {
        let mut failed = Vec::new();
        let mut files = Vec::new();
        let mut known = HashSet::new();
        for place in places {
            for file in libraries_below(place, &mut failed)? {
                match file.canonicalize() {
                    Ok(real) if known.insert(real.clone()) => files.push((place, real)),
                    Ok(_) => {}
                    Err(source) => failed.push((file.clone(), Error::Io { path: file, source })),
                }
            }
        }
        let distributions = Distributions::around(places);
        let mut inspected = Vec::new();
        for (place, file) in files {
            match domain.inspect(&file) {
                Ok(inspection) => {
                    let owner = distributions.owner(&file).map(str::to_owned);
                    let package = owner.unwrap_or_else(|| first_part(place, &file));
                    inspected.push((package, inspection));
                }
                Err(error) => failed.push((file, error.into())),
            }
        }
        let mut libraries = classified(inspected);
        libraries.sort_by_cached_key(|library| {
            let size = match library.is_replicated() {
                true => (library.cost.at_load(), library.cost.at_most()),
                false => (library.once(), 0),
            };
            (!library.is_replicated(), Reverse(size), library.path.clone())
        });
        Ok(Survey { libraries, failed })
    }

    /// The sum of what each interpreter has for itself once it has loaded all of them, and of what these share.
    pub fn replicated(&self) -> Cost {
        let replicated = self.libraries.iter().filter(|library| library.is_replicated());
        replicated.map(|library| library.cost).sum()
    }

    /// Bytes of the libraries that exist once as a whole.
    pub fn shared(&self) -> usize {
        let shared = self.libraries.iter().filter(|library| !library.is_replicated());
        shared.map(Surveyed::once).sum()
    }
}

/// Gives each library the class that it has when those that need it are loaded. A library that nobody
/// needs keeps the class that it has when it is opened itself.
fn classified(inspected: Vec<(String, Inspection)>) -> Vec<Surveyed> {
    let needs = |inspection: &Inspection| -> Vec<(PathBuf, Class, String)> {
        let own = inspection.path.clone();
        let found = inspection.dependencies.iter().filter_map(|dependency| {
            Some((dependency.path.clone()?, dependency.class?, dependency.reason.clone()))
        });
        found.filter(|(path, ..)| *path != own).collect()
    };
    let needed: HashSet<PathBuf> = inspected
        .iter()
        .flat_map(|(_, inspection)| needs(inspection))
        .map(|(path, ..)| path)
        .collect();
    // Only a library that nobody needs begins a load. The classes of its needs are those of that load.
    let mut classes: HashMap<PathBuf, (Class, String)> = HashMap::new();
    for (_, root) in inspected.iter().filter(|(_, root)| !needed.contains(&root.path)) {
        for (path, class, reason) in needs(root) {
            // It may exist once for one user and in each interpreter for another. Then it costs both.
            if class == Class::Replicate || !classes.contains_key(&path) {
                classes.insert(path, (class, reason));
            }
        }
    }
    let surveyed = |(package, inspection): (String, Inspection)| {
        let own = (inspection.class, inspection.reason);
        // Its own reason tells more: a user knows of what is loaded only that it is.
        let by_users = classes.remove(&inspection.path).filter(|(class, _)| *class != own.0);
        let (class, reason) = by_users.unwrap_or(own);
        let missing = inspection.dependencies.iter().filter(|one| one.class.is_none());
        Surveyed {
            missing: missing.map(|one| one.name.clone()).collect(),
            path: inspection.path,
            package,
            class,
            reason,
            cost: inspection.cost,
        }
    };
    inspected.into_iter().map(surveyed).collect()
}

/// The files below `place` that are named as libraries, in the order of their paths, or `place` itself, if it is a
/// file. Links to directories are not followed: they may lead back.
fn libraries_below(place: &Path, failed: &mut Vec<(PathBuf, Error)>) -> Result<Vec<PathBuf>> {
    let io = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Io { path, source }
    };
    if !fs::metadata(place).map_err(io(place))?.is_dir() {
        return Ok(vec![place.to_owned()]);
    }
    let mut found = Vec::new();
    let mut directories = vec![(place.to_owned(), fs::read_dir(place).map_err(io(place))?)];
    while let Some((directory, entries)) = directories.pop() {
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    failed.push((directory.clone(), io(&directory)(error)));
                    break;
                }
            };
            let path = entry.path();
            let kind = entry.file_type().ok();
            if kind.is_some_and(|kind| kind.is_dir()) {
                match fs::read_dir(&path) {
                    Ok(entries) => directories.push((path, entries)),
                    Err(error) => failed.push((path.clone(), io(&path)(error))),
                }
            } else if names_library(&path) && !path.is_dir() {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Whether a file's name ends in `.so`, or in `.so.` and a version that begins with a digit.
pub(super) fn names_library(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let version = |rest: &str| rest.starts_with(|first: char| first.is_ascii_digit());
    name.ends_with(".so") || name.rsplit_once(".so.").is_some_and(|(_, rest)| version(rest))
}

/// `numpy` for `numpy/_core/a.so` and for `numpy.libs/b.so` below `place`, and the name of `place` for what lies
/// directly in it.
fn first_part(place: &Path, file: &Path) -> String {
    let place = place.canonicalize().unwrap_or_else(|_| place.to_owned());
    let below = file.strip_prefix(&place).ok();
    let parts = below.map(|below| below.iter().collect::<Vec<_>>()).unwrap_or_default();
    let part = match parts[..] {
        [first, _, ..] => Some(first),
        _ => place.file_name(),
    };
    let part = part.unwrap_or_default().to_string_lossy();
    part.strip_suffix(".libs").unwrap_or(&part).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_known_by_their_names() {
        for name in ["a.so", "a.cpython-311-x86_64-linux-gnu.so", "a.so.3", "a.so.1.0.2k"] {
            assert!(names_library(Path::new(name)), "{name}");
        }
        for name in ["a.so.py", "so", "a.sol", "a.so.", "a.so.txt", "a.py"] {
            assert!(!names_library(Path::new(name)), "{name}");
        }
    }

    #[test]
    fn a_package_is_the_first_part_of_a_path() {
        let part = |file: &str| first_part(Path::new("/no/site"), Path::new(file));
        assert_eq!(part("/no/site/numpy/_core/a.so"), "numpy");
        assert_eq!(part("/no/site/numpy.libs/b.so"), "numpy");
        assert_eq!(part("/no/site/c.so"), "site");
        assert_eq!(part("/no/site"), "site");
    }
}
