//! `fcntl` and `lockf`, and what closes descriptors: record locks of one program among several are its own.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr;

use crate::dl::Interposed;
use crate::replica::thunk::Interposition;
use crate::sys::record_locks::{self, Owner};

/// The functions of <fcntl.h>, <stdio.h> and <unistd.h> that lock records and close descriptors.
pub(super) fn uses(owner: &Owner) -> Vec<Interposed> {
    let context = ptr::from_ref(owner).expose_provenance();
    // SAFETY: the functions have the signatures of the headers, and then the context. fcntl's third argument is an integer or a
    // pointer, and it is passed as that of a function that declares it (psABI, 3.2.3). It has no fourth.
    let with =
        |target, arguments| unsafe { Interposition::with_context(target, arguments, context) };
    let control = with(fcntl as *const c_void, 3);
    let lock = with(lockf as *const c_void, 3);
    let closing = with(close as *const c_void, 1);
    let replacing = with(dup2 as *const c_void, 2);
    let ending = with(fclose as *const c_void, 1);
    let reopening = with(freopen as *const c_void, 3);
    vec![
        ("fcntl", control),
        ("fcntl64", control),
        ("__fcntl", control),
        ("lockf", lock),
        ("lockf64", lock),
        ("close", closing),
        ("__close", closing),
        ("dup2", replacing),
        ("__dup2", replacing),
        ("dup3", with(dup3 as *const c_void, 3)),
        ("close_range", with(close_range as *const c_void, 3)),
        ("closefrom", with(closefrom as *const c_void, 1)),
        ("fclose", ending),
        ("_IO_fclose", ending),
        ("freopen", reopening),
        ("freopen64", reopening),
    ]
}

/// The owner that a thunk's context refers to.
///
/// # Safety
/// The context is that of an interposition of [`uses`], called by code of the domain.
pub(super) unsafe fn owner<'a>(context: usize) -> &'a Owner {
    // SAFETY: it lives as long as code of the domain can run.
    unsafe { &*ptr::with_exposed_provenance(context) }
}

/// `fcntl(descriptor, command, argument)`.
///
/// # Safety
/// As fcntl(2).
pub(super) unsafe extern "C-unwind" fn fcntl(
    descriptor: c_int,
    command: c_int,
    argument: usize,
    context: usize,
) -> c_int {
    // SAFETY: the caller's promise, and called through its thunk.
    unsafe { record_locks::control(descriptor, command, argument, owner(context)) }
}

/// `lockf(descriptor, command, length)`.
///
/// # Safety
/// Called through its thunk.
unsafe extern "C" fn lockf(
    descriptor: c_int,
    command: c_int,
    length: libc::off_t,
    context: usize,
) -> c_int {
    // SAFETY: by contract.
    record_locks::lock_from_position(descriptor, command, length, unsafe { owner(context) })
}

/// `close(descriptor)`.
///
/// # Safety
/// Called through its thunk.
pub(super) unsafe extern "C-unwind" fn close(descriptor: c_int, context: usize) -> c_int {
    // SAFETY: by contract.
    record_locks::close(descriptor, unsafe { owner(context) })
}

/// `dup2(from, to)`.
///
/// # Safety
/// Called through its thunk.
pub(super) unsafe extern "C" fn dup2(from: c_int, to: c_int, context: usize) -> c_int {
    // SAFETY: by contract.
    record_locks::replace(from, to, None, unsafe { owner(context) })
}

/// `dup3(from, to, flags)`.
///
/// # Safety
/// Called through its thunk.
pub(super) unsafe extern "C" fn dup3(
    from: c_int,
    to: c_int,
    flags: c_int,
    context: usize,
) -> c_int {
    // SAFETY: by contract.
    record_locks::replace(from, to, Some(flags), unsafe { owner(context) })
}

/// `close_range(first, last, flags)`.
///
/// # Safety
/// Called through its thunk.
pub(super) unsafe extern "C" fn close_range(
    first: c_uint,
    last: c_uint,
    flags: c_int,
    context: usize,
) -> c_int {
    // SAFETY: by contract.
    record_locks::close_range(first, last, flags, unsafe { owner(context) })
}

/// `closefrom(lowest)`.
///
/// # Safety
/// Called through its thunk.
unsafe extern "C" fn closefrom(lowest: c_int, context: usize) {
    // SAFETY: by contract.
    record_locks::close_all_from(lowest, unsafe { owner(context) });
}

/// `fclose(stream)`.
///
/// # Safety
/// As fclose(3).
unsafe extern "C" fn fclose(stream: *mut libc::FILE, context: usize) -> c_int {
    // SAFETY: the caller's promise, and called through its thunk.
    unsafe { record_locks::fclose(stream, owner(context)) }
}

/// `freopen(path, mode, stream)`.
///
/// # Safety
/// As freopen(3).
unsafe extern "C" fn freopen(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut libc::FILE,
    context: usize,
) -> *mut libc::FILE {
    // SAFETY: the caller's promise, and called through its thunk.
    unsafe { record_locks::reopen(path, mode, stream, owner(context)) }
}
