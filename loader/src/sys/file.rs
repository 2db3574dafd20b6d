//! Files: opening, identity, read-only views, and sealed memory files.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use memmap2::Mmap;

/// The identity of a file: two paths with equal identities are the same object for the loader. glibc's
/// `_dl_map_object_from_fd` compares device and inode. Size and time of change are added, so that a file
/// that was replaced in place is not taken for the image that was parsed earlier. A part of a container is an
/// object of its own: its place in the file is added too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileId {
    device: u64,
    inode: u64,
    start: u64,
    size: u64,
    changed: (i64, i64),
}

impl FileId {
    pub(crate) fn of(file: &File) -> io::Result<FileId> {
        file.metadata().map(|metadata| FileId::from_metadata(&metadata))
    }

    pub(crate) fn of_path(path: &Path) -> io::Result<FileId> {
        std::fs::metadata(path).map(|metadata| FileId::from_metadata(&metadata))
    }

    /// That of the file at `path`, if there is a regular one. The error is one of [`is_refusal`].
    pub(crate) fn of_regular(path: &Path) -> io::Result<Option<FileId>> {
        match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => Ok(Some(FileId::from_metadata(&metadata))),
            Err(error) if is_refusal(&error) => Err(error),
            Ok(_) | Err(_) => Ok(None),
        }
    }

    /// That of the bytes in `range` of this file.
    pub(crate) fn of_part(&self, range: &Range<usize>) -> FileId {
        FileId { start: range.start as u64, size: range.len() as u64, ..*self }
    }

    /// The identity by which glibc tells files apart, and a part's place in its container.
    pub(crate) fn object(&self) -> (u64, u64, u64) {
        (self.device, self.inode, self.start)
    }

    /// Whether the file has no byte.
    pub(crate) fn is_empty(&self) -> bool {
        self.size == 0
    }

    fn from_metadata(metadata: &std::fs::Metadata) -> FileId {
        FileId {
            device: metadata.dev(),
            inode: metadata.ino(),
            start: 0,
            size: metadata.size(),
            changed: (metadata.mtime(), metadata.mtime_nsec()),
        }
    }
}

/// Whether an error is not about the file: the kernel lacks some resource at this moment. A search that
/// took such an error for the file's absence would find another file of the same name, or none.
pub(crate) fn is_refusal(error: &io::Error) -> bool {
    const REFUSALS: [i32; 6] =
        [libc::ENOMEM, libc::EMFILE, libc::ENFILE, libc::EIO, libc::EAGAIN, libc::EINTR];
    error.raw_os_error().is_some_and(|code| REFUSALS.contains(&code))
}

/// Opens a file for reading.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    File::open(path)
}

/// The whole content of the file at `path`.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(path)
}

/// At most `length` bytes from `offset`: less where the file ends.
pub(crate) fn part(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    let mut read = 0;
    while read < length {
        match file.read_at(&mut bytes[read..], offset + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(read);
    Ok(bytes)
}

/// The record of an open file.
pub(crate) fn status(file: &File) -> Option<libc::stat> {
    // SAFETY: a record of integers may be all zeroes; the descriptor is open, and the record valid.
    unsafe {
        let mut record: libc::stat = std::mem::zeroed();
        (libc::fstat(file.as_raw_fd(), &raw mut record) == 0).then_some(record)
    }
}

/// A descriptor of a memory file with a copy of `bytes`, which only reads and is the caller's. It stays open in programs that are
/// executed, unless it `closes`.
pub(crate) fn read_only_copy(bytes: &[u8], closes: bool) -> io::Result<libc::c_int> {
    let copy = sealed("copy", bytes)?;
    // Opened again, since a memory file's own descriptor also writes.
    let reading = File::open(format!("/proc/self/fd/{}", copy.as_raw_fd()))?.into_raw_fd();
    if !closes {
        // SAFETY: takes an integer, and concerns a descriptor that was just opened.
        unsafe { libc::fcntl(reading, libc::F_SETFD, 0) };
    }
    Ok(reading)
}

/// The path without symbolic links and without `.` and `..`.
pub(crate) fn canonical(path: &Path) -> io::Result<PathBuf> {
    path.canonicalize()
}

/// The path by which other processes find the content of an open file while it is open.
pub(crate) fn public_path(file: &File) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
}

/// A read-only view of a whole file, shared with the page cache.
pub(crate) fn view(file: &File) -> io::Result<Mmap> {
    // SAFETY: the mapping is private and read-only. A file that is truncated while it is mapped
    // raises SIGBUS on access, as it does for every loaded library under every loader; the crate's
    // documentation lists it among the things that a process does not survive.
    unsafe { Mmap::map(file) }
}

/// A memory file that holds `bytes` and that nobody can change any more.
///
/// Images that have no file of their own use it. The seals make private mappings of its pages as
/// dependable as those of a read-only file.
pub(crate) fn sealed(name: &str, bytes: &[u8]) -> io::Result<File> {
    let name = CString::new(name).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the record is valid.
    if unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } == 0
        && bytes.len() as libc::rlim_t > limit.rlim_cur
    {
        // To write beyond it is a signal first, SIGXFSZ, which ends the process.
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    // SAFETY: `name` is a NUL-terminated string that outlives the call.
    let descriptor =
        unsafe { libc::memfd_create(name.as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
    if descriptor < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just created and nobody else owns it.
    let mut file = out_of_the_way(unsafe { File::from_raw_fd(descriptor) });
    file.write_all(bytes)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE | libc::F_SEAL_SEAL;
    // SAFETY: F_ADD_SEALS takes an integer and touches no memory of ours.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

/// The same file, if possible with a descriptor above those that a program meets.
///
/// The descriptor stays open as long as the process. A program counts on low numbers: the first file that it opens
/// has the lowest free one (open(2)), and a standard stream that is closed at its start must stay closed.
pub(crate) fn out_of_the_way(file: File) -> File {
    /// Half of the usual limit of 1024 (RLIMIT_NOFILE).
    const LOWEST: libc::c_int = 512;
    // SAFETY: F_DUPFD_CLOEXEC takes an integer and touches no memory of ours.
    let moved = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD_CLOEXEC, LOWEST) };
    if moved < 0 {
        // The limit is lower, or reached.
        return file;
    }
    // SAFETY: the descriptor was just created and nobody else owns it.
    unsafe { File::from_raw_fd(moved) }
}
