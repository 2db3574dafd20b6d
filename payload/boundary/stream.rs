//! A stream of bytes that the host has and Python uses.

use std::ffi::c_void;

/// A writer or a reader of the host. Its functions are called without the GIL, by one thread at a time or by several.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Passed to the functions.
    pub context: *mut c_void,
    /// Writes all `len` bytes, or flushes if `len` is 0. Returns 0, or an error of `errno(3)`.
    pub write: unsafe extern "C" fn(context: *mut c_void, data: *const u8, len: usize) -> i32,
    /// Reads at most `len` bytes. Returns their number, 0 at the end, or the negative of an error of `errno(3)`.
    pub read: unsafe extern "C" fn(context: *mut c_void, data: *mut u8, len: usize) -> isize,
    /// Called once, when Python lets go of the stream.
    pub drop: unsafe extern "C" fn(context: *mut c_void),
}
