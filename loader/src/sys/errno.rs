//! The calling thread's `errno`.

use std::ffi::c_int;

/// Sets it.
pub(crate) fn set_errno(code: c_int) {
    // SAFETY: the address of the thread's own variable.
    unsafe { *libc::__errno_location() = code };
}

/// Its value.
pub(crate) fn errno() -> c_int {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() }
}

/// Sets it and returns -1, as most functions of the C library report an error.
pub(crate) fn failed(code: c_int) -> c_int {
    set_errno(code);
    -1
}
