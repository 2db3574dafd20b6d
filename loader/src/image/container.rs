//! Containers: files that hold libraries among other things, each mapped from where it lies.

use std::fs::File;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

use crate::error::{Error, Result};
use crate::sys::file::{self, FileId};
use crate::sys::page_size;

/// A file that holds libraries, open and mapped for reading for as long as the process runs: one descriptor and
/// one mapping, however many libraries are taken from it.
#[derive(Clone, Debug)]
pub struct Container(Arc<Opened>);

#[derive(Debug)]
struct Opened {
    file: File,
    id: FileId,
    view: &'static Mmap,
}

impl Container {
    /// Opens the file at `path`. The view of it is never unmapped, since images live as long as the process.
    ///
    /// # Errors
    /// [`Error::Io`] if it cannot be opened or mapped.
    pub fn open(path: &Path) -> Result<Container> {
        let failed = |action| move |source| Error::Io { object: path.to_owned(), action, source };
        let file = file::open(path).map_err(failed("open"))?;
        let file = file::out_of_the_way(file);
        let id = FileId::of(&file).map_err(failed("stat"))?;
        let view = Box::leak(Box::new(file::view(&file).map_err(failed("map"))?));
        Ok(Container(Arc::new(Opened { file, id, view })))
    }

    /// The whole file.
    pub fn bytes(&self) -> &'static [u8] {
        self.0.view
    }

    pub(crate) fn file(&self) -> &File {
        &self.0.file
    }

    /// The library in `range`, if it lies in the file and can be mapped from there.
    pub(crate) fn part(&self, range: Range<usize>) -> Option<Part> {
        let fits = range.start < range.end && range.end <= self.bytes().len();
        (fits && range.start.is_multiple_of(page_size()))
            .then(|| Part { container: self.clone(), range })
    }
}

/// A library in a container.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    container: Container,
    range: Range<usize>,
}

impl Part {
    pub(crate) fn bytes(&self) -> &'static [u8] {
        &self.container.bytes()[self.range.clone()]
    }

    pub(crate) fn id(&self) -> FileId {
        self.container.0.id.of_part(&self.range)
    }

    pub(crate) fn file(&self) -> &File {
        &self.container.0.file
    }

    /// Where it begins in its container.
    pub(crate) fn start(&self) -> u64 {
        self.range.start as u64
    }
}
