//! The bytes of an archive in memory.

use super::PackageError;
use crate::sealed;
use memmap2::{MmapMut, MmapOptions};
use std::fs::File;
use std::io;
use std::path::Path;
use std::ptr::NonNull;

/// Page-aligned memory that holds a whole archive.
///
/// A file is mapped privately and writable. A page that nobody writes is the page cache's: one
/// physical copy for all interpreters and all processes. A page that is written (by an in-place
/// operation on a weight) becomes this process's own copy, which its interpreters share. The file
/// never changes.
///
/// Truncating the file while it is mapped ends the process by `SIGBUS`, as with every mapped file. To
/// replace a package, rename a new file over it.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// Keeps the pages mapped. All access goes through `start`: Python may write to the pages at any
    /// time, so no long-lived Rust reference to them may exist.
    _pages: Option<MmapMut>,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the pages may be read and written from any thread; only Python or torch code does both at
// once, for which it is the usual race between threads that share a tensor. Rust code reads
// records during `Archive::open` and through `Mapping::copy` and `Mapping::crc32` only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps a file.
    pub(crate) fn file(path: &Path) -> Result<Self, PackageError> {
        let failed = |source| PackageError::Open { path: path.to_owned(), source };
        if let Some(part) = sealed::package(path) {
            let range = part.map_err(failed)?;
            return Self::part(&range.file, range.start, range.length).map_err(failed);
        }
        let file = File::open(path).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.is_dir() {
            // mmap(2) would report a missing device.
            return Err(failed(io::Error::from_raw_os_error(libc::EISDIR)));
        }
        if metadata.len() == 0 {
            return Ok(Self::empty());
        }
        let length = usize::try_from(metadata.len()).unwrap_or(usize::MAX);
        Self::part(&file, 0, length).map_err(failed)
    }

    /// Maps `length` bytes of a file from `start`, a page's start.
    fn part(file: &File, start: u64, length: usize) -> io::Result<Self> {
        // No reservation of swap: the whole file could be written, and almost none of it ever is.
        let mut options = MmapOptions::new();
        options.no_reserve_swap().offset(start).len(length);
        // SAFETY: a private mapping; nobody's writes to it reach the file. Changes of the file
        // by others may show in pages that have not been touched yet: they make a wrong record,
        // as they would for any reader, and never an invalid Rust value, for the bytes are only
        // read as bytes.
        unsafe { options.map_copy(file) }.map(Self::own)
    }

    /// Copies bytes to pages of their own.
    pub(crate) fn bytes(bytes: &[u8]) -> Result<Self, PackageError> {
        if bytes.is_empty() {
            return Ok(Self::empty());
        }
        let mut pages = MmapMut::map_anon(bytes.len())
            .map_err(|source| PackageError::Open { path: "<memory>".into(), source })?;
        pages.copy_from_slice(bytes);
        Ok(Self::own(pages))
    }

    fn own(mut pages: MmapMut) -> Self {
        Self {
            start: NonNull::new(pages.as_mut_ptr()).expect("no mapping begins at address 0"),
            len: pages.len(),
            _pages: Some(pages),
        }
    }

    fn empty() -> Self {
        Self { _pages: None, start: NonNull::dangling(), len: 0 }
    }

    /// Length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The address of the byte at `offset`.
    ///
    /// # Panics
    ///
    /// If `offset` lies beyond the end.
    pub(crate) fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset <= self.len, "offset {offset} of {}", self.len);
        // SAFETY: the offset lies in the mapping or one past its end.
        unsafe { self.start.add(offset) }
    }

    /// A copy of a part.
    ///
    /// # Panics
    ///
    /// If the part reaches beyond the end.
    pub(crate) fn copy(&self, offset: usize, len: usize) -> Vec<u8> {
        assert!(len <= self.len && offset <= self.len - len);
        // SAFETY: in bounds, and initialized as all pages are. The slice lives for the copy only;
        // a concurrent write by Python code (to a weight) could tear bytes, which are then a wrong
        // copy of a record that is being changed.
        unsafe { std::slice::from_raw_parts(self.at(offset).as_ptr(), len) }.to_vec()
    }

    /// The CRC-32 of a part.
    ///
    /// # Panics
    ///
    /// If the part reaches beyond the end.
    pub(crate) fn crc32(&self, offset: usize, len: usize) -> u32 {
        assert!(len <= self.len && offset <= self.len - len);
        // SAFETY: as in `copy`.
        crc32fast::hash(unsafe { std::slice::from_raw_parts(self.at(offset).as_ptr(), len) })
    }
}

/// A reader over a mapping, for the zip crate.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    pub(crate) mapping: std::sync::Arc<Mapping>,
    pub(crate) position: u64,
}

impl std::io::Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let start = usize::try_from(self.position).unwrap_or(usize::MAX).min(self.mapping.len());
        let len = buffer.len().min(self.mapping.len() - start);
        // SAFETY: source and target are `len` bytes each, in bounds, and cannot overlap: the
        // buffer is a Rust reference, which nothing in the mapping is.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.mapping.at(start).as_ptr(),
                buffer.as_mut_ptr(),
                len,
            );
        }
        self.position += len as u64;
        Ok(len)
    }
}

impl std::io::Seek for Reader {
    fn seek(&mut self, to: std::io::SeekFrom) -> std::io::Result<u64> {
        use std::io::SeekFrom;
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::End(offset) => (self.mapping.len() as u64).checked_add_signed(offset),
            SeekFrom::Current(offset) => self.position.checked_add_signed(offset),
        };
        self.position = position.ok_or(std::io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}
