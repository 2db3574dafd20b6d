//! Enclosures: roots of provided files whose libraries find nothing but each other.
//!
//! A library below such a root is one of an application that carries what it needs. The machine's search paths, and
//! RUNPATHs that name directories of the machine on which the library was linked, mean nothing to it.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::image::provided::normalized;
use crate::sys::lock::{Mutex, Rank};

/// A root whose libraries find nothing outside of it, but for exceptions.
#[derive(Clone, Debug)]
pub struct Enclosure {
    /// The root, an absolute path without symbolic links. No file below it is looked for on a disk.
    pub root: PathBuf,
    /// The directory below the root that is searched for needed names, after a library's own paths.
    pub libraries: PathBuf,
    /// The names of libraries that are the machine's, such as glibc's. Each stands for all names that begin so.
    pub machine: Vec<String>,
    /// Paths outside of the root that may be opened, each with all that lies below it.
    pub allowed: Vec<PathBuf>,
}

static ENCLOSURES: Mutex<Vec<Enclosure>> = Mutex::new(Rank::Enclosures, Vec::new());

/// Makes `enclosure` count for all loads from now on, as long as the process runs.
pub fn enclose(enclosure: Enclosure) {
    let mut enclosures = ENCLOSURES.lock();
    enclosures.retain(|known| known.root != enclosure.root);
    enclosures.push(enclosure);
}

/// The enclosure in which `path` lies.
pub(crate) fn of(path: &Path) -> Option<Enclosure> {
    let enclosures = ENCLOSURES.lock();
    if enclosures.is_empty() {
        return None;
    }
    let path = normalized(path);
    enclosures.iter().find(|enclosure| path.starts_with(&enclosure.root)).cloned()
}

impl Enclosure {
    /// Whether the machine's library of this name may be used.
    pub(crate) fn leaves_to_the_machine(&self, name: &str) -> bool {
        self.machine.iter().any(|known| name.starts_with(&**known))
    }

    /// Whether files in `directory` may be used.
    pub(crate) fn admits(&self, directory: &Path) -> bool {
        let directory = normalized(directory);
        let mut admitted = self.allowed.iter().chain([&self.root]);
        admitted.any(|allowed| directory.starts_with(allowed))
    }

    /// The error for the path of a file that may not be used.
    pub(crate) fn check(&self, path: &Path) -> Result<()> {
        let of_the_machine = || {
            let name = path.file_name().and_then(|name| name.to_str());
            name.is_some_and(|name| self.leaves_to_the_machine(name))
        };
        if self.admits(path) || of_the_machine() {
            return Ok(());
        }
        let reason = format!(
            "the application in {} is sealed, and the path lies outside of it; seal it with the file, or allow the path",
            self.root.display()
        );
        Err(Error::Refused { object: path.to_owned(), reason })
    }
}
