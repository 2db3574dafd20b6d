//! Closing descriptors: the domain loses its locks on their files, and keeps the descriptors of this module.

use std::collections::BTreeSet;
use std::ffi::{c_char, c_int, c_uint};
use std::fs;
use std::os::fd::RawFd;

use crate::sys::descriptors;
use crate::sys::environ;
use crate::sys::errno::{errno, set_errno};
use crate::sys::signals::Blocked;

use super::Owner;
use super::description::{Facts, File, is_reserved, may_be_reserved, reserved};
use super::table::{FILES, is_visitor};

unsafe extern "C-unwind" {
    #[link_name = "close"]
    fn libc_close(descriptor: c_int) -> c_int;
}

impl Owner {
    /// The file behind a descriptor, if the domain has a description of it.
    fn file_behind(&self, descriptor: RawFd) -> Option<File> {
        if self.has_none() || is_visitor() {
            return None;
        }
        let facts = Facts::of(descriptor)?;
        let _blocked = Blocked::begin();
        FILES.lock().has(self, facts.file).then_some(facts.file)
    }

    fn release(&self, file: File) {
        let errno = errno();
        {
            let _blocked = Blocked::begin();
            FILES.lock().release(self, file);
        }
        set_errno(errno);
    }
}

/// The result of `close`, which closes a descriptor for code of the owner's domain if `has_closed` says so.
fn closing<T>(
    descriptor: RawFd,
    owner: &Owner,
    has_closed: impl Fn(&T) -> bool,
    close: impl FnOnce() -> T,
) -> T {
    let file = owner.file_behind(descriptor);
    let result = close();
    file.filter(|_| has_closed(&result)).into_iter().for_each(|file| owner.release(file));
    result
}

/// `close(descriptor)`.
#[inline]
pub(crate) fn close(descriptor: c_int, owner: &Owner) -> c_int {
    if may_be_reserved(descriptor) && is_reserved(descriptor) {
        set_errno(libc::EBADF);
        return -1;
    }
    descriptors::forget(descriptor);
    if owner.has_none() {
        // SAFETY: the program's own call.
        return unsafe { libc_close(descriptor) };
    }
    // The kernel closes any open descriptor, even if it reports an error (close(2)).
    // SAFETY: as above.
    closing(descriptor, owner, |_| true, || unsafe { libc::close(descriptor) })
}

/// `dup2(from, to)`, or `dup3` with flags.
#[inline]
pub(crate) fn replace(from: c_int, to: c_int, flags: Option<c_int>, owner: &Owner) -> c_int {
    if may_be_reserved(to) && is_reserved(to) && !is_visitor() {
        let _blocked = Blocked::begin();
        FILES.lock().vacate(to);
    }
    // SAFETY: the program's own call.
    let replace = || unsafe {
        match flags {
            None => libc::dup2(from, to),
            Some(flags) => libc::dup3(from, to, flags),
        }
    };
    let opened = match owner.has_none() || from == to {
        true => replace(),
        false => closing(to, owner, |result| *result >= 0, replace),
    };
    descriptors::note_copy(from, opened, owner.domain)
}

/// `fclose(stream)`.
///
/// # Safety
/// As fclose(3).
pub(crate) unsafe fn fclose(stream: *mut libc::FILE, owner: &Owner) -> c_int {
    if environ::is_pipe(stream) {
        // As the C library's waits for the program behind its own stream (libio/iopopen.c, _IO_new_proc_close).
        // SAFETY: the caller's promise.
        return unsafe { environ::pclose(stream) };
    }
    // SAFETY: as above.
    descriptors::forget(unsafe { libc::fileno(stream) });
    if owner.has_none() {
        // SAFETY: the caller's promise.
        return unsafe { libc::fclose(stream) };
    }
    // SAFETY: as above.
    unsafe { closing(libc::fileno(stream), owner, |_| true, || libc::fclose(stream)) }
}

/// `freopen(path, mode, stream)`.
///
/// # Safety
/// As freopen(3).
pub(crate) unsafe fn reopen(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut libc::FILE,
    owner: &Owner,
) -> *mut libc::FILE {
    // SAFETY: the caller's promise.
    let reopen = || unsafe {
        descriptors::forget(libc::fileno(stream));
        let reopened = libc::freopen(path, mode, stream);
        descriptors::note_stream(reopened, owner.domain);
        reopened
    };
    if owner.has_none() {
        return reopen();
    }
    // SAFETY: as above.
    closing(unsafe { libc::fileno(stream) }, owner, |_| true, reopen)
}

/// `close_range(first, last, flags)`.
pub(crate) fn close_range(first: c_uint, last: c_uint, flags: c_int, owner: &Owner) -> c_int {
    let closes = flags & libc::CLOSE_RANGE_CLOEXEC as c_int == 0;
    let mut kept: Vec<c_uint> = Vec::new();
    if closes && may_be_reserved(last.min(c_int::MAX as c_uint) as c_int) && !is_visitor() {
        kept.extend(reserved().map(|one| one as c_uint).filter(|one| (first..=last).contains(one)));
        kept.sort_unstable();
    }
    let mut files = Vec::new();
    if closes && !owner.has_none() {
        let is_meant = |one: &c_int| (first..=last).contains(&(*one as c_uint));
        for descriptor in descriptors().into_iter().filter(is_meant) {
            files.extend(owner.file_behind(descriptor).filter(|_| !is_reserved(descriptor)));
        }
    }
    let status = close_around(first, last, flags, &kept);
    files.into_iter().filter(|_| status == 0).for_each(|file| owner.release(file));
    status
}

/// Closes a range without the numbers in `kept`, which ascend.
fn close_around(first: c_uint, last: c_uint, flags: c_int, kept: &[c_uint]) -> c_int {
    let close = |first: c_uint, last: c_uint| {
        // SAFETY: the program's own call.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) as c_int }
    };
    let mut next = first;
    for &number in kept {
        if next < number && close(next, number - 1) != 0 {
            return -1;
        }
        next = number + 1;
    }
    if next <= last || kept.is_empty() { close(next, last) } else { 0 }
}

/// `closefrom(lowest)`.
pub(crate) fn close_all_from(lowest: c_int, owner: &Owner) {
    let lowest = lowest.max(0);
    if close_range(lowest as c_uint, c_uint::MAX, 0, owner) == 0 {
        return;
    }
    // Before Linux 5.9.
    for descriptor in descriptors().into_iter().filter(|one| *one >= lowest) {
        close(descriptor, owner);
    }
}

/// The descriptors of the process, without that by which they are listed.
fn descriptors() -> BTreeSet<c_int> {
    if let Ok(entries) = fs::read_dir("/proc/self/fd") {
        let numbers = entries.flatten().map(|entry| entry.file_name());
        let numbers = numbers.filter_map(|name| name.to_str()?.parse().ok());
        return numbers.collect();
    }
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the place is valid, and F_GETFD takes no argument.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        let all = 0..limit.rlim_cur.min(1 << 16) as c_int;
        all.filter(|one| libc::fcntl(*one, libc::F_GETFD) >= 0).collect()
    }
}
