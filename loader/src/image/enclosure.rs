//! Enclosures: roots of provided files whose libraries find nothing but each other.
//!
//! A library below such a root is one of an application that carries what it needs. The machine's search paths, and
//! RUNPATHs that name directories of the machine on which the library was linked, mean nothing to it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::image::Image;
use crate::image::files::{FileTable, TableEntry};
use crate::image::provided::normalized;
use crate::sys::file;
use crate::sys::lock::Once;

/// A root whose libraries find nothing outside of it, but for exceptions.
#[derive(Clone, Debug)]
pub struct Enclosure {
    /// The root, an absolute path without symbolic links. No file below it is looked for on a disk.
    pub root: PathBuf,
    /// The directory below the root that is searched for needed names, after a library's own paths.
    pub libraries: PathBuf,
    /// The names of libraries that are the machine's, such as glibc's. Each stands for all names that begin so.
    pub machine: Vec<String>,
    /// Names of libraries that are left out on purpose. A library that needs one is loaded without it: a function that only the absent one
    /// has ends the process, with a message, when code calls it, and its data are at address 0.
    pub absent: Vec<String>,
    /// Paths outside of the root that may be opened, each with all that lies below it.
    pub allowed: Vec<PathBuf>,
    /// The files below the root. Code in domains that are made later opens and lists them by the C library's functions.
    pub files: Option<FileTable>,
}

static ENCLOSURE: Once<Enclosure> = Once::new();

/// Makes `enclosure` count for all loads from now on, as long as the process runs. A process has one.
///
/// # Errors
/// [`Error::Refused`] if it has another one already.
pub fn enclose(enclosure: Enclosure) -> Result<()> {
    let root = enclosure.root.clone();
    let files = enclosure.files.clone();
    let mut enclosure = Some(enclosure);
    ENCLOSURE.get_or_init(|| enclosure.take().expect("taken by this call alone"));
    if enclosure.is_some() {
        let reason = "this process has an enclosure already".to_owned();
        return Err(Error::Refused { object: root, reason });
    }
    if let Some(table) = files {
        let root = root.into_os_string().into_encoded_bytes();
        FILES.get_or_init(|| Files { root, table });
    }
    Ok(())
}

/// The enclosure in which `path` lies.
pub(crate) fn of(path: &Path) -> Option<&'static Enclosure> {
    let enclosure = ENCLOSURE.get()?;
    normalized(path).starts_with(&enclosure.root).then_some(enclosure)
}

/// Whether `image` needs a library that is left out of its enclosure.
pub(crate) fn is_incomplete(image: &Image) -> bool {
    let lacks =
        |enclosure: &Enclosure| image.dynamic.needed.iter().any(|name| enclosure.lacks(name));
    ENCLOSURE.get().is_some_and(|enclosure| !enclosure.absent.is_empty() && lacks(enclosure))
        && of(&image.path).is_some()
}

impl Enclosure {
    /// Whether the machine's library of this name may be used.
    pub(crate) fn leaves_to_the_machine(&self, name: &str) -> bool {
        self.machine.iter().any(|known| name.starts_with(&**known))
    }

    /// Whether the library of this name is left out.
    pub(crate) fn lacks(&self, name: &str) -> bool {
        self.absent.iter().any(|absent| absent == name)
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

/// The files below an enclosure's root.
#[derive(Debug)]
pub(crate) struct Files {
    root: Vec<u8>,
    table: FileTable,
}

static FILES: Once<Files> = Once::new();

/// The files of the enclosure that has some. A signal handler may call it.
#[inline]
pub(crate) fn files() -> Option<&'static Files> {
    FILES.get()
}

/// Where a path below a root leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Found(TableEntry),
    /// Beyond a file, as if that was a directory.
    InFile,
    Nothing,
}

impl Files {
    /// Where `path` leads; none if it is not below the root.
    #[inline]
    pub(crate) fn place(&self, path: &[u8]) -> Option<Destination> {
        let rest = path.strip_prefix(&*self.root)?;
        matches!(rest.first(), None | Some(b'/')).then(|| self.place_inside(path))
    }

    #[cold]
    fn place_inside(&self, path: &[u8]) -> Destination {
        let Some(inner) = self.inner(path) else { return Destination::Nothing };
        match self.table.find(&inner) {
            Some(TableEntry::File { .. }) if path.ends_with(b"/") => Destination::InFile,
            Some(entry) => Destination::Found(entry),
            None => {
                let slashes = inner.iter().enumerate().filter(|(_, byte)| **byte == b'/');
                let mut above = slashes.map(|(at, _)| self.table.find(&inner[..at]));
                match above.any(|entry| matches!(entry, Some(TableEntry::File { .. }))) {
                    true => Destination::InFile,
                    false => Destination::Nothing,
                }
            }
        }
    }

    /// The names in the directory at `path`.
    pub(crate) fn names(&self, path: &[u8]) -> Vec<(&'static [u8], TableEntry)> {
        self.inner(path).map(|inner| self.table.names(&inner)).unwrap_or_default()
    }

    /// A path's part below the root, without `.` and `..`; none if these lead out of the root.
    fn inner(&self, path: &[u8]) -> Option<Vec<u8>> {
        let resolved = resolved(path);
        let rest = resolved.strip_prefix(&*self.root)?;
        match rest.split_first() {
            None => Some(Vec::new()),
            Some((b'/', inner)) => Some(inner.to_vec()),
            Some(_) => None,
        }
    }

    /// The container's own record, whose owner and times are those of the files.
    pub(crate) fn container_status(&self) -> Option<libc::stat> {
        file::status(self.table.container().file())
    }
}

/// `path` without `.`, `..` and further slashes. No path below a root has symbolic links.
pub(crate) fn resolved(path: &[u8]) -> Vec<u8> {
    normalized(Path::new(OsStr::from_bytes(path))).into_os_string().into_encoded_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn enclosure() -> Enclosure {
        Enclosure {
            root: "/<an enclosure>".into(),
            libraries: "/<an enclosure>/lib".into(),
            machine: vec!["libm.so".into()],
            absent: vec!["libgpu.so".into()],
            allowed: vec!["/opt/drivers".into()],
            files: None,
        }
    }

    #[test]
    fn only_what_is_inside_or_allowed_may_be_opened() {
        let enclosure = enclosure();
        for path in ["/<an enclosure>/x.so", "/opt/drivers/y.so", "/usr/lib/libm.so.6"] {
            enclosure.check(Path::new(path)).unwrap();
        }
        for path in ["/usr/lib/libz.so.1", "/<an enclosure>/../etc/x.so", "/opt/drivers2/y.so"] {
            let error = enclosure.check(Path::new(path)).unwrap_err().to_string();
            assert!(error.contains("sealed") && error.contains(path), "{error}");
        }
    }

    #[test]
    fn a_path_belongs_to_the_enclosure_it_lies_in() {
        enclose(enclosure()).unwrap();
        assert!(enclose(enclosure()).is_err(), "a second one");
        assert!(of(Path::new("/<an enclosure>/lib/../x")).is_some());
        assert!(of(Path::new("/<an enclosure>/../etc")).is_none());
        assert!(of(Path::new("/<an enclosure>2/x")).is_none());
    }
}
