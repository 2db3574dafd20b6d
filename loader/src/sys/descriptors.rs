//! Descriptors, each of which belongs to the domain whose code has opened it, and what a child has of them.
//!
//! A process's child has copies of all its descriptors. A child that code of one domain forks would thus keep open what
//! another domain closes: the reader of a pipe would never see its end, a lock of flock(2) would stay, and the child's end
//! would write another domain's stream a second time. So the child closes what other domains have opened. Descriptors
//! that no domain is known to have opened stay, and so do the standard streams.

use std::ffi::c_int;
use std::mem;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

use crate::id::DomainId;

/// The numbers up to here are noted. The table has no page in memory that no descriptor is noted in.
const LIMIT: usize = 1 << 16;

/// For each descriptor the domain that has opened it and part of its file's number, which is 0 if it is unknown; or 0.
static OPENED: [AtomicU64; LIMIT] = [const { AtomicU64::new(0) }; LIMIT];

/// The highest descriptor ever noted.
static HIGHEST: AtomicI32 = AtomicI32::new(0);

/// Notes that code of `domain` has opened a descriptor, or that it has got an error instead, which is returned as well. A
/// signal handler may call it.
pub(crate) fn note(descriptor: c_int, domain: DomainId) -> c_int {
    if let Some(file) =
        (descriptor > libc::STDERR_FILENO).then(|| file_behind(descriptor)).flatten()
    {
        set(descriptor, domain, file);
    }
    descriptor
}

/// As [`note`], for a copy of the descriptor `from`. It asks the kernel for nothing.
#[inline]
pub(crate) fn note_copy(from: c_int, descriptor: c_int, domain: DomainId) -> c_int {
    if descriptor > libc::STDERR_FILENO {
        // The standard streams are never noted.
        let from = (from > libc::STDERR_FILENO).then_some(from as usize);
        let noted = from.and_then(|from| OPENED.get(from));
        set(descriptor, domain, noted.map_or(0, |place| place.load(Ordering::Acquire)) as u32);
    }
    descriptor
}

#[inline]
fn set(descriptor: c_int, domain: DomainId, file: u32) {
    let Some(place) = OPENED.get(descriptor as usize) else { return };
    // One that is noted already was counted then. Each further page that is touched after a system call takes 10 ns.
    if place.load(Ordering::Relaxed) == 0 && HIGHEST.load(Ordering::Acquire) < descriptor {
        HIGHEST.fetch_max(descriptor, Ordering::AcqRel);
    }
    place.store(u64::from(domain.0) << 32 | u64::from(file), Ordering::Release);
}

/// Notes that a descriptor is about to be closed.
#[inline]
pub(crate) fn forget(descriptor: c_int) {
    if let Some(place) = OPENED.get(descriptor as usize)
        && place.load(Ordering::Relaxed) != 0
    {
        place.store(0, Ordering::Release);
    }
}

/// Notes that code of `domain` has opened a stream, unless that is null.
///
/// # Safety
/// A stream that is open.
pub(crate) unsafe fn note_stream(stream: *mut libc::FILE, domain: DomainId) {
    if !stream.is_null() {
        // SAFETY: the caller's promise.
        note(unsafe { libc::fileno(stream) }, domain);
    }
}

/// Closes what other domains have opened: the calling thread is that of a child that code of `domain` has forked.
pub(crate) fn close_others(domain: DomainId) {
    for descriptor in 0..=HIGHEST.load(Ordering::Acquire) {
        let noted = OPENED[descriptor as usize].load(Ordering::Acquire);
        let (owner, file) = ((noted >> 32) as u32, noted as u32);
        if noted == 0 || owner == domain.0 {
            continue;
        }
        forget(descriptor);
        // A library that exists once may have closed it, and the number may be another file's now.
        if file == 0 || file_behind(descriptor) == Some(file) {
            // SAFETY: its owner has no thread in this process.
            unsafe { libc::close(descriptor) };
        }
    }
}

/// Part of the number of the file behind a descriptor. The calling thread's errno stays.
fn file_behind(descriptor: c_int) -> Option<u32> {
    // SAFETY: zero is a value of every field, and the place is valid. Errno is the thread's own.
    unsafe {
        let errno = *libc::__errno_location();
        let mut facts: libc::stat = mem::zeroed();
        let status = libc::fstat(descriptor, &mut facts);
        *libc::__errno_location() = errno;
        (status == 0).then_some((facts.st_ino ^ facts.st_dev << 20) as u32)
    }
}
