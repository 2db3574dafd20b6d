//! Calls of code that may throw an exception of another language.
//!
//! Rust ends the process when such an exception reaches `catch_unwind` or the start of a thread, with a message
//! that names neither the exception nor its origin. A guarded call has a frame of its own, whose personality
//! routine (Itanium C++ ABI: Exception Handling, 1.6.3) stops the exception before it reaches a frame of Rust.
//! Panics of Rust and forced unwinds (`pthread_exit`, cancellation) pass through.

use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};

use crate::arch::{EXCEPTION_REGISTER, RECORD_REGISTER, call_guarded, landing};

/// The exception that a guarded call has stopped: the address of its `_Unwind_Exception`. Its receiver must release it.
#[derive(Debug)]
#[must_use = "nobody else releases the exception"]
pub(crate) struct Exception(pub NonNull<UnwindException>);

/// The head of `struct _Unwind_Exception` (Itanium C++ ABI: Exception Handling, 1.2).
#[repr(C)]
#[derive(Debug)]
pub(crate) struct UnwindException {
    /// The language and its runtime library.
    pub class: u64,
    /// The function of that library that frees the exception.
    pub cleanup: usize,
}

/// The record by which a guarded call and [`personality`] inform each other.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Record {
    /// The exception. `arch` writes the first word.
    caught: *mut UnwindException,
    /// The name of the called code, if an exception from it is to end the process.
    fatal: Option<NonNull<str>>,
}

/// Calls `function` with `arguments`, and returns its result or the exception that it threw.
///
/// # Safety
/// `function` is the address of a function of up to three integers or pointers that returns one or nothing, and
/// may be called with `arguments`.
pub(crate) unsafe fn call(function: usize, arguments: [usize; 3]) -> Result<usize, Exception> {
    let mut record = Record { caught: ptr::null_mut(), fatal: None };
    // SAFETY: the caller's promise; the record outlives the call.
    let result = unsafe { call_guarded(function, &raw const arguments, &raw mut record) };
    // The landing code has written it where the compiler does not look.
    // SAFETY: a field of a live value.
    match NonNull::new(unsafe { (&raw const record.caught).read_volatile() }) {
        None => Ok(result),
        Some(exception) => Err(Exception(exception)),
    }
}

/// As [`call`], where nobody could go on after an exception. The exception ends the process like an uncaught
/// one: after a line that begins with `what`, a C++ exception calls `std::terminate`, which names its type.
///
/// # Safety
/// As for [`call`].
pub(crate) unsafe fn call_or_end(what: &str, function: usize, arguments: [usize; 3]) -> usize {
    let mut record = Record { caught: ptr::null_mut(), fatal: Some(NonNull::from(what)) };
    // SAFETY: the caller's promise; the record and the text outlive the call.
    unsafe { call_guarded(function, &raw const arguments, &raw mut record) }
}

/// `struct _Unwind_Context`.
#[repr(C)]
pub(crate) struct Context(c_void);

unsafe extern "C" {
    fn _Unwind_GetGR(context: *mut Context, register: c_int) -> usize;
    fn _Unwind_SetGR(context: *mut Context, register: c_int, value: usize);
    fn _Unwind_SetIP(context: *mut Context, address: usize);
    fn _Unwind_DeleteException(exception: *mut UnwindException);
}

// Bits of `_Unwind_Action` and values of `_Unwind_Reason_Code` (1.2.1 and 1.6.1 there).
const SEARCH_PHASE: c_int = 1;
const HANDLER_FRAME: c_int = 4;
const FORCED: c_int = 8;
const FATAL_IN_SEARCH: c_int = 3;
const HANDLER_FOUND: c_int = 6;
const INSTALL_CONTEXT: c_int = 7;
const CONTINUE: c_int = 8;

/// The class of Rust's panics, in the byte order of this release and in that of earlier ones, with which a library
/// may have been compiled (library/panic_unwind/src/gcc.rs).
const PANICS: [u64; 2] = [u64::from_ne_bytes(*b"MOZ\0RUST"), u64::from_be_bytes(*b"MOZ\0RUST")];

/// The personality routine of the frame of a guarded call.
///
/// # Safety
/// For the unwinder alone.
pub(crate) unsafe extern "C" fn personality(
    _version: c_int,
    actions: c_int,
    class: u64,
    exception: *mut UnwindException,
    context: *mut Context,
) -> c_int {
    if PANICS.contains(&class) || actions & FORCED != 0 {
        return CONTINUE;
    }
    // SAFETY: the frame is that of a guarded call, which keeps its record in this register.
    let record = unsafe { &*(_Unwind_GetGR(context, RECORD_REGISTER) as *const Record) };
    if actions & SEARCH_PHASE != 0 {
        let Some(what) = record.fatal else { return HANDLER_FOUND };
        // SAFETY: `call_or_end` was called with the text, and has not returned.
        let what = unsafe { what.as_ref() };
        let line = format!("{what} threw an exception, which nobody catches\n");
        // SAFETY: the text is valid for its length.
        unsafe { libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len()) };
        // The thrower goes on as if nobody caught: `__cxa_throw` calls `std::terminate`.
        return FATAL_IN_SEARCH;
    }
    if actions & HANDLER_FRAME == 0 {
        return CONTINUE;
    }
    // SAFETY: the landing code expects the frame of the guarded call and the exception in this register.
    unsafe {
        _Unwind_SetGR(context, EXCEPTION_REGISTER, exception as usize);
        _Unwind_SetIP(context, landing as *const () as usize);
    }
    INSTALL_CONTEXT
}

impl Exception {
    /// Frees the exception. Its language's runtime does not learn that it was caught.
    pub(crate) fn delete(self) {
        // SAFETY: it was caught, and its owner gives it away here.
        unsafe { _Unwind_DeleteException(self.0.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn sum(a: usize, b: usize, c: usize) -> usize {
        a + 10 * b + 100 * c
    }

    extern "C-unwind" fn panics() {
        std::panic::panic_any(7);
    }

    #[test]
    fn a_guarded_call_passes_arguments_and_the_result() {
        // SAFETY: the function takes three integers.
        let result = unsafe { call(sum as *const () as usize, [1, 2, 3]) };
        assert_eq!(result.unwrap(), 321);
    }

    #[test]
    fn a_panic_passes_a_guarded_call() {
        // SAFETY: the function takes no argument.
        let caught = std::panic::catch_unwind(|| unsafe {
            call(panics as *const () as usize, [0; 3]).is_ok()
        });
        assert_eq!(caught.unwrap_err().downcast_ref(), Some(&7));
    }
}
