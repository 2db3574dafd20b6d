//! The C library's variable `environ`.

use std::ffi::{c_char, c_int};
use std::sync::atomic::AtomicPtr;

/// `environ` (environ(7)): the address of an array of strings that ends with a null pointer, or null.
pub(crate) fn environ() -> &'static AtomicPtr<*mut c_char> {
    unsafe extern "C" {
        static mut environ: *mut *mut c_char;
    }
    // SAFETY: it is the C library's variable, aligned and there for the process's life. Other code may
    // change it without an atomic store, by one store of a word.
    unsafe { AtomicPtr::from_ptr(&raw mut environ) }
}

/// Sets the calling thread's `errno`.
pub(crate) fn set_errno(code: c_int) {
    // SAFETY: the address of the thread's own variable.
    unsafe { *libc::__errno_location() = code };
}
