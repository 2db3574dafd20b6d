//! Files below an enclosure's root, as code in replicas finds them by the C library's functions for paths.
//!
//! Such files are part of a container ([`crate::image::files`]), and read-only. `stat`, `access` and `opendir` answer from
//! its table. A descriptor of one is that of a memory file with a copy of its bytes: it can be read, mapped, passed to a
//! child and polled as any. Directories have no descriptors.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use crate::dl::Interposed;
use crate::image::enclosure::{self, Destination};
use crate::image::files::TableEntry;
use crate::replica::thunk::Interposition;
use crate::sys::errno::set_errno;
use crate::sys::{file, opening};

/// Where a path leads below an enclosure's root; none if it leads elsewhere, or nobody has such a root.
///
/// # Safety
/// `path` is null or ends with a NUL.
#[inline]
unsafe fn place(path: *const c_char) -> Option<Destination> {
    let files = enclosure::files()?;
    if path.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    files.place(unsafe { CStr::from_ptr(path) }.to_bytes())
}

fn fail<T>(code: c_int, result: T) -> T {
    set_errno(code);
    result
}

/// The error for a place at which a file is wanted.
fn no_file(place: &Destination) -> c_int {
    match place {
        Destination::Found(TableEntry::Directory { .. }) => libc::EISDIR,
        Destination::InFile => libc::ENOTDIR,
        Destination::Found(TableEntry::File { .. }) | Destination::Nothing => libc::ENOENT,
    }
}

/// A descriptor of the file at `place`, which only reads.
fn open_place(place: &Destination, flags: c_int) -> c_int {
    if flags & libc::O_ACCMODE != libc::O_RDONLY || flags & (libc::O_CREAT | libc::O_TRUNC) != 0 {
        return fail(libc::EROFS, -1);
    }
    let Destination::Found(TableEntry::File { bytes, .. }) = place else {
        return fail(no_file(place), -1);
    };
    if flags & libc::O_DIRECTORY != 0 {
        return fail(libc::ENOTDIR, -1);
    }
    match file::read_only_copy(bytes, flags & libc::O_CLOEXEC != 0) {
        Ok(descriptor) => descriptor,
        Err(error) => fail(error.raw_os_error().unwrap_or(libc::EIO), -1),
    }
}

/// The path that a word of an argument points to.
fn path(word: usize) -> *const c_char {
    ptr::with_exposed_provenance(word)
}

/// # Safety
/// As open(2).
pub(super) unsafe fn open(name: usize, flags: usize, mode: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match place(path(name)) {
            Some(place) => open_place(&place, flags as c_int),
            None => opening::open(name, flags, mode),
        }
    }
}

/// # Safety
/// As openat(2).
pub(super) unsafe fn openat(folder: usize, name: usize, flags: usize, mode: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match place(path(name)) {
            Some(place) => open_place(&place, flags as c_int),
            None => opening::openat(folder, name, flags, mode),
        }
    }
}

/// # Safety
/// As open(2) without a mode.
pub(super) unsafe fn __open_2(name: usize, flags: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match place(path(name)) {
            Some(place) => open_place(&place, flags as c_int),
            None => opening::__open_2(name, flags),
        }
    }
}

/// # Safety
/// As openat(2) without a mode.
pub(super) unsafe fn __openat_2(folder: usize, name: usize, flags: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match place(path(name)) {
            Some(place) => open_place(&place, flags as c_int),
            None => opening::__openat_2(folder, name, flags),
        }
    }
}

/// # Safety
/// As fopen(3).
pub(super) unsafe fn fopen(name: usize, mode: usize) -> *mut libc::FILE {
    // SAFETY: the caller's promise; the descriptor was just opened, and is the stream's.
    unsafe {
        let Some(place) = place(path(name)) else { return opening::fopen(name, mode) };
        let mode: *const c_char = ptr::with_exposed_provenance(mode);
        let words = CStr::from_ptr(mode).to_bytes();
        let reads = words.starts_with(b"r") && !words.contains(&b'+');
        let keeps = if words.contains(&b'e') { libc::O_CLOEXEC } else { 0 };
        let flags = if reads { libc::O_RDONLY } else { libc::O_RDWR };
        match open_place(&place, flags | keeps) {
            -1 => ptr::null_mut(),
            descriptor => opening::fdopen(descriptor, mode),
        }
    }
}

/// Fills a record for the entry at `place`.
///
/// # Safety
/// `record` has room for one.
unsafe fn describe(place: &Destination, record: *mut libc::stat) -> c_int {
    let Destination::Found(entry) = place else { return fail(no_file(place), -1) };
    let Some(mut found) = enclosure::files().and_then(|files| files.container_status()) else {
        return fail(libc::EIO, -1);
    };
    let (index, mode, size) = match entry {
        TableEntry::File { index, bytes } => (*index, libc::S_IFREG | 0o444, bytes.len()),
        TableEntry::Directory { index } => (*index, libc::S_IFDIR | 0o555, 0),
    };
    found.st_mode = mode;
    found.st_size = size as libc::off_t;
    found.st_blocks = size.div_ceil(512) as libc::blkcnt_t;
    found.st_nlink = 1;
    // The container's device has no file with such a number.
    found.st_ino = u64::MAX - index as u64;
    // SAFETY: the caller's promise.
    unsafe { record.write(found) };
    0
}

/// # Safety
/// As stat(2).
unsafe extern "C-unwind" fn stat(path: *const c_char, record: *mut libc::stat) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match place(path) {
            Some(place) => describe(&place, record),
            None => opening::fstatat(libc::AT_FDCWD, path, record, 0),
        }
    }
}

/// # Safety
/// As lstat(2).
unsafe extern "C-unwind" fn lstat(path: *const c_char, record: *mut libc::stat) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match place(path) {
            Some(place) => describe(&place, record),
            None => opening::fstatat(libc::AT_FDCWD, path, record, libc::AT_SYMLINK_NOFOLLOW),
        }
    }
}

/// # Safety
/// As fstatat(2).
unsafe extern "C-unwind" fn fstatat(
    folder: c_int,
    path: *const c_char,
    record: *mut libc::stat,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match place(path) {
            Some(place) => describe(&place, record),
            None => opening::fstatat(folder, path, record, flags),
        }
    }
}

/// `stat` of programs that were linked before glibc 2.33.
///
/// # Safety
/// As stat(2); `version` is glibc's of the record.
unsafe extern "C-unwind" fn __xstat(
    _version: c_int,
    path: *const c_char,
    record: *mut libc::stat,
) -> c_int {
    // SAFETY: the caller's promise. There is one version of the record on 64-bit machines.
    unsafe { stat(path, record) }
}

/// # Safety
/// As lstat(2).
unsafe extern "C-unwind" fn __lxstat(
    _version: c_int,
    path: *const c_char,
    record: *mut libc::stat,
) -> c_int {
    // SAFETY: as above.
    unsafe { lstat(path, record) }
}

/// # Safety
/// As fstatat(2).
unsafe extern "C-unwind" fn __fxstatat(
    _version: c_int,
    folder: c_int,
    path: *const c_char,
    record: *mut libc::stat,
    flags: c_int,
) -> c_int {
    // SAFETY: as above.
    unsafe { fstatat(folder, path, record, flags) }
}

/// # Safety
/// As statx(2).
unsafe extern "C-unwind" fn statx(
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    mask: u32,
    record: *mut libc::statx,
) -> c_int {
    // SAFETY: the caller's promise; a record of integers may be all zeroes.
    unsafe {
        let Some(place) = place(path) else {
            return opening::statx(folder, path, flags, mask, record);
        };
        let mut found: libc::stat = std::mem::zeroed();
        if describe(&place, &raw mut found) != 0 {
            return -1;
        }
        let mut all: libc::statx = std::mem::zeroed();
        let time = |seconds, nanoseconds: i64| {
            let mut time: libc::statx_timestamp = std::mem::zeroed();
            (time.tv_sec, time.tv_nsec) = (seconds, nanoseconds as u32);
            time
        };
        all.stx_mask = libc::STATX_BASIC_STATS;
        all.stx_mode = found.st_mode as u16;
        (all.stx_ino, all.stx_nlink) = (found.st_ino, 1);
        (all.stx_size, all.stx_blocks) = (found.st_size as u64, found.st_blocks as u64);
        (all.stx_uid, all.stx_gid) = (found.st_uid, found.st_gid);
        all.stx_blksize = found.st_blksize as u32;
        all.stx_mtime = time(found.st_mtime, found.st_mtime_nsec);
        all.stx_ctime = time(found.st_ctime, found.st_ctime_nsec);
        all.stx_atime = time(found.st_atime, found.st_atime_nsec);
        (all.stx_dev_major, all.stx_dev_minor) =
            (opening::major(found.st_dev), opening::minor(found.st_dev));
        record.write(all);
        0
    }
}

/// The answer to a question for rights.
fn may(place: &Destination, mode: c_int) -> c_int {
    match place {
        Destination::Found(_) if mode & libc::W_OK != 0 => fail(libc::EROFS, -1),
        Destination::Found(TableEntry::File { .. }) if mode & libc::X_OK != 0 => {
            fail(libc::EACCES, -1)
        }
        Destination::Found(_) => 0,
        Destination::InFile => fail(libc::ENOTDIR, -1),
        Destination::Nothing => fail(libc::ENOENT, -1),
    }
}

/// # Safety
/// As access(2).
unsafe extern "C-unwind" fn access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match place(path) {
            Some(place) => may(&place, mode),
            None => opening::access(path, mode),
        }
    }
}

/// # Safety
/// As faccessat(2).
unsafe extern "C-unwind" fn faccessat(
    folder: c_int,
    path: *const c_char,
    mode: c_int,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match place(path) {
            Some(place) => may(&place, mode),
            None => opening::faccessat(folder, path, mode, flags),
        }
    }
}

/// The error of readlink(2) for what is not a symbolic link.
fn no_link(place: &Destination) -> isize {
    match place {
        Destination::Found(_) => fail(libc::EINVAL, -1),
        place => fail(no_file(place), -1),
    }
}

/// # Safety
/// As readlink(2).
unsafe extern "C-unwind" fn readlink(path: *const c_char, text: *mut c_char, size: usize) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        match place(path) {
            Some(place) => no_link(&place),
            None => opening::readlink(path, text, size),
        }
    }
}

/// # Safety
/// As readlinkat(2).
unsafe extern "C-unwind" fn readlinkat(
    folder: c_int,
    path: *const c_char,
    text: *mut c_char,
    size: usize,
) -> isize {
    // SAFETY: the caller's promise.
    unsafe {
        match place(path) {
            Some(place) => no_link(&place),
            None => opening::readlinkat(folder, path, text, size),
        }
    }
}

/// # Safety
/// As realpath(3).
unsafe extern "C-unwind" fn realpath(path: *const c_char, resolved: *mut c_char) -> *mut c_char {
    // SAFETY: the caller's promise: the room is PATH_MAX bytes, or the C library's malloc gives it.
    unsafe {
        match place(path) {
            None => opening::realpath(path, resolved),
            Some(Destination::Found(_)) => {
                let path = enclosure::resolved(CStr::from_ptr(path).to_bytes());
                if path.len() >= libc::PATH_MAX as usize {
                    return fail(libc::ENAMETOOLONG, ptr::null_mut());
                }
                let room = match resolved.is_null() {
                    true => opening::malloc(path.len() + 1).cast::<c_char>(),
                    false => resolved,
                };
                if !room.is_null() {
                    ptr::copy_nonoverlapping(path.as_ptr().cast(), room, path.len());
                    *room.add(path.len()) = 0;
                }
                room
            }
            Some(place) => fail(no_file(&place), ptr::null_mut()),
        }
    }
}

/// The interpositions, for a domain among several. Those of functions that open descriptors stand in
/// [`descriptors`](super::descriptors).
pub(super) fn uses() -> Vec<Interposed> {
    if enclosure::files().is_none() {
        return Vec::new();
    }
    let functions: [(&'static str, *const c_void); 17] = [
        ("stat", stat as *const c_void),
        ("stat64", stat as *const c_void),
        ("lstat", lstat as *const c_void),
        ("lstat64", lstat as *const c_void),
        ("fstatat", fstatat as *const c_void),
        ("fstatat64", fstatat as *const c_void),
        ("__xstat", __xstat as *const c_void),
        ("__xstat64", __xstat as *const c_void),
        ("__lxstat", __lxstat as *const c_void),
        ("__lxstat64", __lxstat as *const c_void),
        ("__fxstatat", __fxstatat as *const c_void),
        ("__fxstatat64", __fxstatat as *const c_void),
        ("statx", statx as *const c_void),
        ("access", access as *const c_void),
        ("faccessat", faccessat as *const c_void),
        ("readlink", readlink as *const c_void),
        ("readlinkat", readlinkat as *const c_void),
    ];
    // SAFETY: each has the C library's signature.
    let one = |(name, target)| (name, unsafe { Interposition::function(target) });
    let mut all: Vec<Interposed> = functions.into_iter().map(one).collect();
    all.push(one(("realpath", realpath as *const c_void)));
    all.extend(super::directories::uses());
    all
}
