//! Errors, for the caller to read.

use super::failure::Failure;
use super::pointers::free;
use super::status::hz_status;
use runtime::Exception;
use std::ffi::{CString, c_char};
use std::ptr;

/// A failure and its cause.
///
/// The error of a Python exception keeps that exception, and the exception keeps the variables of the frames in its
/// traceback. Free it where it is handled.
pub struct hz_error {
    pub(crate) status: hz_status,
    pub(crate) message: CString,
    type_name: CString,
    traceback: CString,
    report: CString,
    exception: Option<Exception>,
}

impl hz_error {
    /// The exception, if it is one.
    pub(crate) fn exception(&self) -> Option<&Exception> {
        self.exception.as_ref()
    }

    fn new(failure: &Failure) -> Self {
        let (mut type_name, mut exception) = (String::new(), None);
        let (mut traceback, mut report) = ("", "");
        let message = match failure {
            Failure::Misuse(_, message) | Failure::Panic(message) => message.clone(),
            Failure::Runtime(error) => {
                traceback = error.traceback().unwrap_or_default();
                exception = error.exception().cloned();
                match error {
                    runtime::Error::Python { type_name: name, message, .. } => {
                        type_name.clone_from(name);
                        message.clone()
                    }
                    runtime::Error::Crashed { report: text } => {
                        report = text;
                        crashed(text)
                    }
                    other => other.to_string(),
                }
            }
        };
        Self {
            status: failure.status(),
            message: text(&message),
            type_name: text(&type_name),
            traceback: text(traceback),
            report: text(report),
            exception,
        }
    }
}

/// The message of a crash: the report's first line.
fn crashed(report: &str) -> String {
    let first = report.lines().next().unwrap_or_default();
    let what = first.strip_prefix("hydrozoa: ").unwrap_or("a crash");
    format!("the interpreter has crashed (hz_error_report has the report): {what}")
}

/// A text for C, in which a zero is written as `\0`.
pub(crate) fn text(text: &str) -> CString {
    CString::new(text).unwrap_or_else(|_| {
        CString::new(text.replace('\0', "\\0")).expect("all zeros have been replaced")
    })
}

/// The status that the function returned. HZ_OK for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hz_error_status(error: Option<&hz_error>) -> hz_status {
    error.map_or(hz_status::HZ_OK, |error| error.status)
}

/// The failure, the object it concerns, and what to do about it; for HZ_ERROR_PYTHON the text of the exception. It lives as
/// long as the error. "" for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hz_error_message(error: Option<&hz_error>) -> *const c_char {
    error.map_or(c"".as_ptr(), |error| error.message.as_ptr())
}

/// The type of the exception for HZ_ERROR_PYTHON, with its module unless it is built in: "ValueError",
/// "json.decoder.JSONDecodeError". "" for other errors and for NULL. It lives as long as the error.
#[unsafe(no_mangle)]
pub extern "C" fn hz_error_type_name(error: Option<&hz_error>) -> *const c_char {
    error.map_or(c"".as_ptr(), |error| error.type_name.as_ptr())
}

/// The traceback as Python prints it, with causes, frames and the last line, if the error is an exception or went
/// through Python; else "". It lives as long as the error. "" for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hz_error_traceback(error: Option<&hz_error>) -> *const c_char {
    error.map_or(c"".as_ptr(), |error| error.traceback.as_ptr())
}

/// The report of the crash for HZ_ERROR_CRASHED: the signal, the registers, the native stack and the stacks of Python. "" for
/// other errors and for NULL. It lives as long as the error.
#[unsafe(no_mangle)]
pub extern "C" fn hz_error_report(error: Option<&hz_error>) -> *const c_char {
    error.map_or(c"".as_ptr(), |error| error.report.as_ptr())
}

/// Frees an error. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn hz_error_free(error: Option<Box<hz_error>>) {
    free(error);
}

/// Writes the failure, if the caller wants it.
///
/// # Safety
///
/// `error` is NULL or a place for a pointer.
pub(crate) unsafe fn report(error: *mut *mut hz_error, failure: Option<&Failure>) {
    if error.is_null() {
        return;
    }
    let made =
        failure.map_or(ptr::null_mut(), |failure| Box::into_raw(Box::new(hz_error::new(failure))));
    // SAFETY: as the caller vouches.
    unsafe { error.write(made) };
}
