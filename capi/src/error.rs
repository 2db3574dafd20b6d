//! What failed, for the caller to read.

use crate::boundary::{Place, free, guarded, place, reference, reference_or};
use crate::object::hz_object;
use crate::session::hz_session;
use crate::status::hz_status;
use runtime::Exception;
use std::any::Any;
use std::ffi::{CString, c_char};
use std::ptr;

/// What has failed, and why.
///
/// The error of a Python exception keeps that exception, and the exception keeps the variables of the frames in its
/// traceback. Free it where it is handled.
pub struct hz_error {
    status: hz_status,
    message: CString,
    type_name: CString,
    traceback: CString,
    exception: Option<Exception>,
}

/// The result of a function of this crate.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Why a function failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// An argument, or a misuse of a session.
    Misuse(hz_status, String),
    /// The runtime's word.
    Runtime(runtime::Error),
    /// The message of a panic.
    Panic(String),
}

impl Failure {
    /// An argument that is not accepted.
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        Self::Misuse(hz_status::HZ_ERROR_INVALID_ARGUMENT, message.into())
    }

    /// What a panic carried. It is not dropped, since that could panic too.
    pub(crate) fn panicked(panic: Box<dyn Any + Send>) -> Self {
        let text = panic.downcast_ref::<&str>().copied();
        let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let text = text.unwrap_or("a panic without a message");
        let failure = Self::Panic(format!(
            "{text} (a defect of hydrozoa: report it with the program's output)"
        ));
        std::mem::forget(panic);
        failure
    }

    pub(crate) fn status(&self) -> hz_status {
        match self {
            Self::Misuse(status, _) => *status,
            Self::Runtime(error) => hz_status::of(error),
            Self::Panic(_) => hz_status::HZ_ERROR_PANIC,
        }
    }
}

impl From<runtime::Error> for Failure {
    fn from(error: runtime::Error) -> Self {
        Self::Runtime(error)
    }
}

impl hz_error {
    pub(crate) fn new(failure: &Failure) -> Self {
        let (mut type_name, mut traceback, mut exception) = (String::new(), "", None);
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
                    other => other.to_string(),
                }
            }
        };
        Self {
            status: failure.status(),
            message: text(&message),
            type_name: text(&type_name),
            traceback: text(traceback),
            exception,
        }
    }
}

/// A text for C, in which a zero is written as `\0`.
pub(crate) fn text(text: &str) -> CString {
    CString::new(text).unwrap_or_else(|_| {
        CString::new(text.replace('\0', "\\0")).expect("all zeros have been replaced")
    })
}

/// The status that the function returned. HZ_OK for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_error_status(error: *const hz_error) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { reference_or(error, hz_status::HZ_OK, |error| error.status) }
}

/// What failed, on what, and what to do about it; for HZ_ERROR_PYTHON the text of the exception. It lives as long as the
/// error. "" for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_error_message(error: *const hz_error) -> *const c_char {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { reference_or(error, c"".as_ptr(), |error| error.message.as_ptr()) }
}

/// The type of the exception for HZ_ERROR_PYTHON, with its module unless it is built in: "ValueError",
/// "json.decoder.JSONDecodeError". "" for other errors and for NULL. It lives as long as the error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_error_type_name(error: *const hz_error) -> *const c_char {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { reference_or(error, c"".as_ptr(), |error| error.type_name.as_ptr()) }
}

/// The traceback as Python prints it, with causes, frames and the last line, if the error is an exception or went
/// through Python; else "". It lives as long as the error. "" for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_error_traceback(error: *const hz_error) -> *const c_char {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { reference_or(error, c"".as_ptr(), |error| error.traceback.as_ptr()) }
}

/// The exception object, in a session on its interpreter. The caller owns `exception`. It is NULL, with HZ_OK, if the error
/// is no exception.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_error_exception(
    failed: *const hz_error,
    session: *const hz_session,
    exception: *mut *mut hz_object,
    error: *mut *mut hz_error,
) -> hz_status {
    // SAFETY: the caller keeps the rules of the header.
    unsafe {
        guarded(error, || {
            let out: Place<'_, hz_object> = place(exception, "exception")?;
            let failed = reference(failed, "failed")?;
            reference(session, "session")?.run(|session| {
                if let Some(exception) = &failed.exception {
                    out.put(hz_object::keep(&exception.value(session)?));
                }
                Ok(())
            })
        })
    }
}

/// Frees an error. NULL is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_error_free(error: *mut hz_error) {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { free(error) }
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

#[cfg(test)]
mod tests {
    use super::{Failure, hz_error, text};
    use crate::boundary::guarded;
    use crate::status::hz_status;
    use std::ptr;

    #[test]
    fn a_panic_ends_at_the_boundary_and_is_an_error() {
        let mut error: *mut hz_error = ptr::null_mut();
        // SAFETY: the place is this function's own.
        let status = unsafe { guarded(&raw mut error, || panic!("{} of a test", "a panic")) };
        assert_eq!(status, hz_status::HZ_ERROR_PANIC);
        // SAFETY: a failure has written an error of its own.
        let error = unsafe { Box::from_raw(error) };
        assert_eq!(error.status, hz_status::HZ_ERROR_PANIC);
        let message = error.message.to_str().unwrap();
        assert!(message.starts_with("a panic of a test (a defect of hydrozoa"), "{message}");
    }

    #[test]
    fn a_caller_that_wants_no_error_gets_the_status() {
        // SAFETY: NULL is allowed.
        let status = unsafe { guarded(ptr::null_mut(), || Err(Failure::argument("no"))) };
        assert_eq!(status, hz_status::HZ_ERROR_INVALID_ARGUMENT);
    }

    #[test]
    fn zeros_do_not_cut_a_text() {
        assert_eq!(text("a\0b").to_str(), Ok("a\\0b"));
    }
}
