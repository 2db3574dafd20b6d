//! Files without a disk: a path that only this loader knows, with the caller's bytes.
//!
//! They are for libraries inside containers (an archive, an executable). Everything that uses paths
//! works on them as on files: rules, RPATH with `$ORIGIN`, needed names, `dlopen` by code in replicas.
//! A library that a container holds as it is, from a page's start, is mapped from there. Others' bytes are
//! in sealed memory files, one for equal bytes. Either way replicas share their text like that of any file.
//! Debuggers outside the process read memory files by `/proc/PID/fd/N`.
//!
//! The system's loader does not know such paths. A library that would go to the system loader goes to
//! the commons instead.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::image::container::{Container, Part};
use crate::image::enclosure;
use crate::image::{Content, IMAGES};
use crate::sys::file::{self, FileId};
use crate::sys::lock::{Mutex, Rank};

/// By normalized path.
static FILES: Mutex<BTreeMap<PathBuf, Kept>> = Mutex::new(Rank::ProvidedFiles, BTreeMap::new());

/// A file that is kept open, since no path that others know leads to its bytes.
#[derive(Clone, Debug)]
pub(crate) enum Kept {
    /// A memory file, or one that has lost its name.
    File(Arc<File>),
    Part(Part),
}

impl Kept {
    pub(crate) fn id(&self) -> io::Result<FileId> {
        match self {
            Kept::File(file) => FileId::of(file),
            Kept::Part(part) => Ok(part.id()),
        }
    }

    pub(crate) fn file(&self) -> &File {
        match self {
            Kept::File(file) => file,
            Kept::Part(part) => part.file(),
        }
    }

    /// Where its bytes begin in its file.
    pub(crate) fn start(&self) -> u64 {
        match self {
            Kept::File(_) => 0,
            Kept::Part(part) => part.start(),
        }
    }

    /// At most `length` bytes from `offset`: less where it ends.
    pub(crate) fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        match self {
            Kept::File(file) => file::part(file, offset, length),
            Kept::Part(part) => {
                let rest = part.bytes().get(usize::try_from(offset).unwrap_or(usize::MAX)..);
                let rest = rest.unwrap_or_default();
                Ok(rest[..length.min(rest.len())].to_vec())
            }
        }
    }

    fn holds(&self, bytes: &[u8]) -> bool {
        match self {
            Kept::File(file) => file::view(file).is_ok_and(|view| *view == *bytes),
            Kept::Part(part) => part.bytes() == bytes,
        }
    }
}

/// Makes `path`, an absolute path that should not exist, a file with these bytes for this loader while the
/// process runs. If an image with equal bytes exists, from any source, the path names that image: nothing
/// is loaded twice because it has two paths.
///
/// # Errors
/// [`Error::Io`] if the kernel gives no memory file, or if the path stands for other bytes.
pub fn provide(path: &Path, bytes: &[u8]) -> Result<()> {
    let failed = |action| {
        let object = path.to_owned();
        move |source| Error::Io { object, action, source }
    };
    let key = normalized(path);
    let stands_for_them = |files: &BTreeMap<PathBuf, Kept>| {
        let known = files.get(&key)?;
        Some(if known.holds(bytes) {
            Ok(())
        } else {
            Err(failed("provide")(io::ErrorKind::AlreadyExists.into()))
        })
    };
    let known = stands_for_them(&FILES.lock());
    if let Some(result) = known {
        return result;
    }
    // Without the lock: the file of an image may be a provided one.
    let of_image = IMAGES
        .with_bytes(bytes)
        .map(|image| image.file().map(Content::into_kept).map_err(failed("open the file of")));
    let mut files = FILES.lock();
    if let Some(result) = stands_for_them(&files) {
        return result;
    }
    let known = files.values().find(|known| known.holds(bytes));
    let file = match (known, of_image) {
        (Some(known), _) => known.clone(),
        (None, Some(file)) => file?,
        (None, None) => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let file = file::sealed(&name, bytes).map_err(failed("create a memory file for it"))?;
            Kept::File(Arc::new(file))
        }
    };
    files.insert(key, file);
    Ok(())
}

/// Makes `path`, an absolute path that should not exist, the library that lies in `range` of `container`, for this
/// loader while the process runs. Replicas map it from there: the range begins at a multiple of the page's size.
///
/// # Errors
/// [`Error::Io`] if the range does not lie in the container, begins within a page, or if the path stands for another
/// file.
pub fn provide_part(path: &Path, container: &Container, range: Range<usize>) -> Result<()> {
    let failed = |kind: io::ErrorKind| Error::Io {
        object: path.to_owned(),
        action: "provide, from a container,",
        source: kind.into(),
    };
    let part = container.part(range).ok_or_else(|| failed(io::ErrorKind::InvalidInput))?;
    // As for [`provide`]: nothing is loaded twice because it has two paths.
    let of_image = IMAGES.with_bytes(part.bytes());
    let of_image = of_image.and_then(|image| image.file().map(Content::into_kept).ok());
    let mut files = FILES.lock();
    let provided = || files.values().find(|known| known.holds(part.bytes())).cloned();
    let known = of_image.or_else(provided);
    match files.entry(normalized(path)) {
        Entry::Vacant(place) => drop(place.insert(known.unwrap_or(Kept::Part(part)))),
        Entry::Occupied(known) if known.get().holds(part.bytes()) => {}
        Entry::Occupied(_) => return Err(failed(io::ErrorKind::AlreadyExists)),
    }
    Ok(())
}

/// Opens the file at `path`, provided or not.
pub(crate) fn open(path: &Path) -> io::Result<Kept> {
    match find(path) {
        Some(file) => Ok(file),
        None if enclosure::of(path).is_some() => Err(io::Error::from_raw_os_error(libc::ENOENT)),
        None => file::open(path).map(|file| Kept::File(Arc::new(file))),
    }
}

/// The identity of the regular file at `path`, provided or not, if it exists. An error means that this
/// cannot be known now.
pub(crate) fn regular_file(path: &Path) -> io::Result<Option<FileId>> {
    match find(path) {
        Some(file) => file.id().map(Some),
        None if enclosure::of(path).is_some() => Ok(None),
        None => FileId::of_regular(path),
    }
}

/// The path without symbolic links. No provided path has one.
pub(crate) fn canonical(path: &Path) -> io::Result<PathBuf> {
    match find(path) {
        Some(_) => Ok(normalized(path)),
        None => file::canonical(path),
    }
}

/// Whether the path is one that only this loader knows.
pub(crate) fn is_provided(path: &Path) -> bool {
    find(path).is_some()
}

/// The file that only this loader knows by `path`. Its descriptor lives as long as the process.
pub(crate) fn find(path: &Path) -> Option<Kept> {
    let files = FILES.lock();
    if files.is_empty() { None } else { files.get(&normalized(path)).cloned() }
}

/// `/a/b/../c` is `/a/c`.
pub(crate) fn normalized(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(normal.pop()),
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_provided_path_is_a_file_with_its_bytes_and_no_others() {
        let path = Path::new("/provided-for-a-test/lib/x.so");
        provide(path, b"bytes of a library").unwrap();
        provide(path, b"bytes of a library").unwrap();
        assert!(provide(path, b"other bytes").is_err());
        let roundabout = Path::new("/provided-for-a-test/lib.d/../lib/./x.so");
        let is_file = |path: &Path| regular_file(path).unwrap().is_some();
        assert!(is_file(roundabout) && !roundabout.exists());
        assert_eq!(canonical(roundabout).unwrap(), path);
        let mut read = String::new();
        File::open(file::public_path(find(path).unwrap().file()))
            .unwrap()
            .read_to_string(&mut read)
            .unwrap();
        assert_eq!(read, "bytes of a library");
        assert!(!is_file(Path::new("/provided-for-a-test/lib/y.so")));
    }

    #[test]
    fn equal_bytes_are_one_file() {
        let paths = ["/provided-for-a-test/1.so", "/provided-for-a-test/2.so"].map(Path::new);
        for path in paths {
            provide(path, b"the same bytes twice").unwrap();
        }
        let [one, two] = paths.map(|path| open(path).unwrap().id().unwrap());
        assert_eq!(one, two);
    }
}
