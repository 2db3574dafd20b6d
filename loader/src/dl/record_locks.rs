//! `fcntl`, `lockf` and functions that close descriptors: record locks of one program among several are its own.

use std::ffi::{c_char, c_int, c_uint};
use std::ptr;

use crate::sys::answering::answering;
use crate::sys::answering::types::off_t;
use crate::sys::record_locks::{self, Owner};

/// The owner that a thunk's context refers to.
///
/// # Safety
/// The context is the address of an owner, and called by code of the domain.
pub(super) unsafe fn owner<'a>(context: usize) -> &'a Owner {
    // SAFETY: it lives as long as code of the domain can run.
    unsafe { &*ptr::with_exposed_provenance(context) }
}

answering! {
    pub(super) fn functions, context: usize;

    /// `fcntl(descriptor, command, argument)`. The third argument is an integer or a pointer, and is passed as that of a
    /// function that declares it (psABI, 3.2.3). There is no fourth.
    "fcntl", "fcntl64", "__fcntl" => pub(super) extern "C-unwind" fn fcntl(
        descriptor: c_int, command: c_int, argument: usize,
    ) -> c_int {
        record_locks::control(descriptor, command, argument, owner(context))
    }

    /// `lockf(descriptor, command, length)`.
    "lockf", "lockf64" => extern "C" fn lockf(
        descriptor: c_int, command: c_int, length: off_t,
    ) -> c_int {
        record_locks::lock_from_position(descriptor, command, length, owner(context))
    }

    /// `close(descriptor)`.
    "close", "__close" => pub(super) extern "C-unwind" fn close(descriptor: c_int) -> c_int {
        record_locks::close(descriptor, owner(context))
    }

    /// `dup2(from, to)`.
    "dup2", "__dup2" => pub(super) extern "C" fn dup2(from: c_int, to: c_int) -> c_int {
        record_locks::replace(from, to, None, owner(context))
    }

    /// `dup3(from, to, flags)`.
    "dup3" => pub(super) extern "C" fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int {
        record_locks::replace(from, to, Some(flags), owner(context))
    }

    /// `close_range(first, last, flags)`.
    "close_range" => pub(super) extern "C" fn close_range(
        first: c_uint, last: c_uint, flags: c_int,
    ) -> c_int {
        record_locks::close_range(first, last, flags, owner(context))
    }

    /// `closefrom(lowest)`.
    "closefrom" => extern "C" fn closefrom(lowest: c_int) {
        record_locks::close_all_from(lowest, owner(context));
    }

    /// `fclose(stream)`.
    "fclose", "_IO_fclose" => extern "C" fn fclose(stream: *mut libc::FILE) -> c_int {
        record_locks::fclose(stream, owner(context))
    }

    /// `freopen(path, mode, stream)`.
    "freopen", "freopen64" => extern "C" fn freopen(
        path: *const c_char, mode: *const c_char, stream: *mut libc::FILE,
    ) -> *mut libc::FILE {
        record_locks::reopen(path, mode, stream, owner(context))
    }
}
