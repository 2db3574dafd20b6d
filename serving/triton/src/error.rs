//! Errors of Triton's core as failures, and failures as errors.

use crate::sys::{self, Error, core};
use hydrozoa_models::{Code, Failure};
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// The text of a pointer that Triton gives. Null is an empty one.
///
/// # Safety
///
/// It is null or ends with NUL.
pub(crate) unsafe fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: as the caller vouches.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// A text for Triton.
pub(crate) fn c_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| {
        Failure::new(Code::InvalidArgument, format!("{text:?} has a NUL, which no name may have"))
    })
}

/// A message for Triton. It ends at a NUL.
fn c_message(text: &str) -> CString {
    let text = text.split('\0').next().unwrap_or_default();
    CString::new(text).expect("it has no NUL")
}

/// Reads an error.
///
/// # Safety
///
/// It is an error of Triton's.
pub(crate) unsafe fn read(error: *mut Error) -> Failure {
    // SAFETY: as the caller vouches.
    let (code, message) = unsafe {
        ((core().TRITONSERVER_ErrorCode)(error), text((core().TRITONSERVER_ErrorMessage)(error)))
    };
    Failure::new(Code::of_number(code.into()), message)
}

/// Checks the return value of one of Triton's functions. Null is success.
///
/// # Safety
///
/// It is null or an error that the function has given to its caller.
pub(crate) unsafe fn check(error: *mut Error) -> Result<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: as the caller vouches. It is deleted once.
    let failure = unsafe {
        let failure = read(error);
        (core().TRITONSERVER_ErrorDelete)(error);
        failure
    };
    Err(failure)
}

/// The same where nobody can be told but the log.
///
/// # Safety
///
/// As for [`check`].
pub(crate) unsafe fn log(what: &str, error: *mut Error) {
    // SAFETY: as the caller vouches.
    if let Err(failure) = unsafe { check(error) } {
        tracing::error!("{what}: {failure}");
    }
}

/// A value that a function of Triton's writes to a place.
///
/// # Safety
///
/// `get` keeps that function's rules, and returns what it returns.
pub(crate) unsafe fn value<T: Default>(get: impl FnOnce(*mut T) -> *mut Error) -> Result<T> {
    let mut value = T::default();
    // SAFETY: as the caller vouches.
    unsafe { check(get(&raw mut value)) }?;
    Ok(value)
}

/// The same for a pointer, which is not null.
///
/// # Safety
///
/// As for [`value`].
pub(crate) unsafe fn pointer<T>(get: impl FnOnce(*mut *mut T) -> *mut Error) -> Result<*mut T> {
    let mut value = std::ptr::null_mut();
    // SAFETY: as the caller vouches.
    unsafe { check(get(&raw mut value)) }?;
    if value.is_null() {
        return Err(Failure::new(Code::Internal, "Triton has given no object where it must"));
    }
    Ok(value)
}

/// The same for a text.
///
/// # Safety
///
/// As for [`value`].
pub(crate) unsafe fn string(get: impl FnOnce(*mut *const c_char) -> *mut Error) -> Result<String> {
    let mut value = std::ptr::null();
    // SAFETY: as the caller vouches; what Triton writes is a text.
    unsafe {
        check(get(&raw mut value))?;
        Ok(text(value))
    }
}

/// An error of Triton's, which the caller owns.
pub(crate) fn new(failure: &Failure) -> *mut Error {
    let message = c_message(&failure.message);
    let code = i32::try_from(failure.code.number()).expect("there are eight codes");
    // SAFETY: the text ends with NUL, and Triton copies it.
    unsafe { (core().TRITONSERVER_ErrorNew)(code, message.as_ptr()) }
}

/// The end of a function that Triton calls: null, or an error. A panic is an error, too.
pub(crate) fn answer(action: impl FnOnce() -> Result<()>) -> *mut Error {
    let outcome = catch_unwind(AssertUnwindSafe(action)).unwrap_or_else(|_| {
        Err(Failure::new(Code::Internal, "the backend has panicked; standard error says where"))
    });
    match outcome {
        Ok(()) => std::ptr::null_mut(),
        Err(failure) => new(&failure),
    }
}

/// Runs what must not end with an error of the function that Triton has called.
pub(crate) fn contained(what: &str, action: impl FnOnce()) {
    if catch_unwind(AssertUnwindSafe(action)).is_err() {
        tracing::error!("{what} has panicked; standard error says where");
    }
}

/// An error before the functions are known.
pub(crate) fn refuse(code: Code, words: &str) -> *mut Error {
    let code = i32::try_from(code.number()).expect("there are eight codes");
    sys::refuse(code, &c_message(words))
}

/// An exception or another failure of an interpreter, for the log of a load.
pub(crate) fn python(error: &hydrozoa::Error) -> Failure {
    let text = error.to_string();
    Failure::new(Code::Internal, error.traceback().map_or(text, str::to_owned))
}
