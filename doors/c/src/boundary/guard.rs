//! Where panics end, and failures become statuses.

use super::error::{hz_error, report};
use super::failure::{Failure, Result};
use super::status::hz_status;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The body of a function that can fail. It may use the caller's pointers, since callers keep the rules of the header.
macro_rules! guarded {
    ($error:expr, $body:expr) => {
        // SAFETY: the caller keeps the rules of the header.
        unsafe { $crate::boundary::guard($error, move || $body) }
    };
}
pub(crate) use guarded;

/// Runs the body of a function of the interface. A panic is a failure.
///
/// # Safety
///
/// `error` is NULL or a place for a pointer.
pub(crate) unsafe fn guard(
    error: *mut *mut hz_error,
    action: impl FnOnce() -> Result<()>,
) -> hz_status {
    let outcome = catch_unwind(AssertUnwindSafe(action));
    let failure = match outcome {
        Ok(Ok(())) => None,
        Ok(Err(failure)) => Some(failure),
        Err(panic) => Some(Failure::panicked(panic)),
    };
    // SAFETY: as the caller vouches.
    unsafe { report(error, failure.as_ref()) };
    failure.map_or(hz_status::HZ_OK, |failure| failure.status())
}

/// Reports a failure that somebody keeps.
///
/// # Safety
///
/// As [`guard`].
pub(crate) unsafe fn reported(error: *mut *mut hz_error, failure: &Failure) -> hz_status {
    // SAFETY: as the caller vouches.
    unsafe { report(error, Some(failure)) };
    failure.status()
}

#[cfg(test)]
mod tests {
    use super::guard;
    use crate::boundary::{Failure, c_text, hz_error, hz_status};
    use std::ptr;

    #[test]
    fn a_panic_ends_at_the_boundary_and_is_an_error() {
        let mut error: *mut hz_error = ptr::null_mut();
        // SAFETY: the place is this function's own.
        let status = unsafe { guard(&raw mut error, || panic!("{} of a test", "a panic")) };
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
        let status = unsafe { guard(ptr::null_mut(), || Err(Failure::argument("no"))) };
        assert_eq!(status, hz_status::HZ_ERROR_INVALID_ARGUMENT);
    }

    #[test]
    fn zeros_do_not_cut_a_text() {
        assert_eq!(c_text("a\0b").to_str(), Ok("a\\0b"));
    }
}
