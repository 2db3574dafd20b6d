//! Directories below an enclosure's root, as code in replicas reads them by `opendir` and `readdir`.
//!
//! A stream of such a directory is a record of ours. The C library's functions must not see it: every function of <dirent.h>
//! that takes a stream is interposed, and knows ours by their addresses.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::ptr;

use crate::dl::Interposed;
use crate::image::enclosure::{self, Destination};
use crate::image::files::TableEntry;
use crate::replica::thunk::Interposition;
use crate::sys::errno::set_errno;
use crate::sys::lock::{Mutex, Rank};
use crate::sys::opening;

/// The names that remain to be read, and the record that the last call has returned.
struct Stream {
    names: Vec<(&'static [u8], TableEntry)>,
    next: usize,
    record: libc::dirent,
}

/// The streams that are open, by their addresses.
static STREAMS: Mutex<BTreeMap<usize, Box<Stream>>> = Mutex::new(Rank::Streams, BTreeMap::new());

/// Calls `ours` with the stream at an address, or `theirs` if it is the C library's.
fn with<T>(
    stream: *mut libc::DIR,
    ours: impl FnOnce(&mut Stream) -> T,
    theirs: impl FnOnce() -> T,
) -> T {
    let mut streams = STREAMS.lock();
    match streams.get_mut(&stream.addr()) {
        Some(stream) => ours(stream),
        None => {
            drop(streams);
            theirs()
        }
    }
}

/// # Safety
/// As opendir(3).
unsafe extern "C-unwind" fn opendir(path: *const c_char) -> *mut libc::DIR {
    let found = enclosure::files().filter(|_| !path.is_null()).and_then(|files| {
        // SAFETY: the caller's promise, and it is not null.
        let text = unsafe { CStr::from_ptr(path) }.to_bytes();
        Some((files, text, files.place(text)?))
    });
    let Some((files, text, place)) = found else {
        // SAFETY: the caller's promise.
        return unsafe { opening::opendir(path) };
    };
    match place {
        Destination::Found(TableEntry::Directory { .. }) => {}
        Destination::Found(TableEntry::File { .. }) | Destination::InFile => {
            set_errno(libc::ENOTDIR);
            return ptr::null_mut();
        }
        Destination::Nothing => {
            set_errno(libc::ENOENT);
            return ptr::null_mut();
        }
    }
    // SAFETY: a record of integers may be all zeroes.
    let record = unsafe { std::mem::zeroed() };
    let mut stream = Box::new(Stream { names: files.names(text), next: 0, record });
    let address = ptr::from_mut(&mut *stream).cast::<libc::DIR>();
    STREAMS.lock().insert(address.addr(), stream);
    address
}

/// # Safety
/// As readdir(3).
unsafe extern "C-unwind" fn readdir(stream: *mut libc::DIR) -> *mut libc::dirent {
    let next = |stream: &mut Stream| {
        let position = stream.next;
        let (name, entry): (&[u8], _) = match position {
            0 => (b".", None),
            1 => (b"..", None),
            _ => match stream.names.get(position - 2) {
                Some((name, entry)) => (name, Some(*entry)),
                None => return ptr::null_mut(),
            },
        };
        stream.next += 1;
        let record = &mut stream.record;
        let length = name.len().min(record.d_name.len() - 1);
        record.d_name[..length].copy_from_slice(name[..length].as_signed());
        record.d_name[length] = 0;
        record.d_off = position as libc::off_t + 1;
        record.d_reclen = size_of::<libc::dirent>() as u16;
        (record.d_type, record.d_ino) = match entry {
            Some(TableEntry::File { index, .. }) => (libc::DT_REG, u64::MAX - index as u64),
            Some(TableEntry::Directory { index }) => (libc::DT_DIR, u64::MAX - index as u64),
            None => (libc::DT_DIR, u64::MAX),
        };
        ptr::from_mut(record)
    };
    // SAFETY: the caller's promise.
    with(stream, next, || unsafe { opening::readdir(stream) })
}

/// # Safety
/// As closedir(3).
unsafe extern "C-unwind" fn closedir(stream: *mut libc::DIR) -> c_int {
    if STREAMS.lock().remove(&stream.addr()).is_some() {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { opening::closedir(stream) }
}

/// # Safety
/// As rewinddir(3).
unsafe extern "C-unwind" fn rewinddir(stream: *mut libc::DIR) {
    // SAFETY: the caller's promise.
    with(stream, |stream| stream.next = 0, || unsafe { opening::rewinddir(stream) });
}

/// # Safety
/// As telldir(3).
unsafe extern "C-unwind" fn telldir(stream: *mut libc::DIR) -> c_long {
    // SAFETY: the caller's promise.
    with(stream, |stream| stream.next as c_long, || unsafe { opening::telldir(stream) })
}

/// # Safety
/// As seekdir(3).
unsafe extern "C-unwind" fn seekdir(stream: *mut libc::DIR, place: c_long) {
    let seek = |stream: &mut Stream| stream.next = usize::try_from(place).unwrap_or(0);
    // SAFETY: the caller's promise.
    with(stream, seek, || unsafe { opening::seekdir(stream, place) });
}

/// # Safety
/// As dirfd(3).
unsafe extern "C-unwind" fn dirfd(stream: *mut libc::DIR) -> c_int {
    let none = |_: &mut Stream| {
        set_errno(libc::ENOTSUP);
        -1
    };
    // SAFETY: the caller's promise.
    with(stream, none, || unsafe { opening::dirfd(stream) })
}

trait AsSigned {
    fn as_signed(&self) -> &[c_char];
}

impl AsSigned for [u8] {
    fn as_signed(&self) -> &[c_char] {
        // SAFETY: both types are one byte, of which every value is valid.
        unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), self.len()) }
    }
}

pub(super) fn uses() -> Vec<Interposed> {
    let functions: [(&'static str, *const c_void); 8] = [
        ("opendir", opendir as *const c_void),
        ("readdir", readdir as *const c_void),
        ("readdir64", readdir as *const c_void),
        ("closedir", closedir as *const c_void),
        ("rewinddir", rewinddir as *const c_void),
        ("telldir", telldir as *const c_void),
        ("seekdir", seekdir as *const c_void),
        ("dirfd", dirfd as *const c_void),
    ];
    // SAFETY: each has the C library's signature; on 64-bit machines both forms of a directory's entry are one.
    let one = |(name, target)| (name, unsafe { Interposition::function(target) });
    functions.into_iter().map(one).collect()
}
