//! Threads: keys with destructors, and creation.

use std::ffi::c_void;
use std::io;

/// A start routine as `pthread_create` takes it.
pub(crate) type Start = extern "C" fn(*mut c_void) -> *mut c_void;

/// Makes a key whose `destructor` runs at the exit of each thread that has set it.
pub(crate) fn key(destructor: extern "C" fn(*mut c_void)) -> io::Result<libc::pthread_key_t> {
    let mut key = 0;
    // SAFETY: `key` is a valid place to write to, and the destructor is a function of this crate.
    let status = unsafe {
        libc::pthread_key_create(
            &mut key,
            Some(std::mem::transmute::<
                extern "C" fn(*mut c_void),
                unsafe extern "C" fn(*mut c_void),
            >(destructor)),
        )
    };
    if status == 0 { Ok(key) } else { Err(io::Error::from_raw_os_error(status)) }
}

/// Sets the calling thread's value of `key`.
pub(crate) fn set(key: libc::pthread_key_t, value: *mut c_void) {
    // SAFETY: `key` came from [`key`] and is never deleted. The value is only a pointer to glibc.
    unsafe { libc::pthread_setspecific(key, value) };
}

/// `pthread_atfork(before, parent, child)`.
pub(crate) fn at_fork(
    before: extern "C" fn(),
    parent: extern "C" fn(),
    child: extern "C" fn(),
) -> io::Result<()> {
    // SAFETY: the handlers are functions of this crate that need no argument.
    let status = unsafe { libc::pthread_atfork(Some(before), Some(parent), Some(child)) };
    if status == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(status)) }
}

/// `pthread_create`.
///
/// # Safety
/// `thread` and `attributes` are as `pthread_create(3)` wants them, and `argument` is what `start`
/// expects.
pub(crate) unsafe fn create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> i32 {
    // SAFETY: passed on from the caller.
    unsafe { libc::pthread_create(thread, attributes, start, argument) }
}
