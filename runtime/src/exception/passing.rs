//! Errors of Rust on their way through Python: each is held by the exception that Python has in its place.

use crate::Error;
use crate::contained::drop_contained;
use crate::interpreter::{Inner, entered_from_python};
use hydrozoa_loader::{DomainId, Leaf};
use std::ffi::c_void;

/// What an exception holds.
struct Passing {
    domain: DomainId,
    /// `None` once the host has got it back. Python may raise the exception again.
    error: Leaf<Option<Error>>,
}

/// The context for an exception of this interpreter. [`release`] frees it.
pub(super) fn context(inner: &Inner, error: Error) -> *mut c_void {
    let domain = inner.domain().id();
    Box::into_raw(Box::new(Passing { domain, error: Leaf::new(Some(error)) })).cast()
}

/// The error that an exception holds, if the host has not had it before.
///
/// # Safety
///
/// `context` must be null, or come from [`context`] and not be released meanwhile.
pub(super) unsafe fn take(context: *mut c_void) -> Option<Error> {
    // SAFETY: as the caller vouches.
    let passing = unsafe { context.cast::<Passing>().as_ref() }?;
    passing.error.with(Option::take)
}

/// Drops what an exception holds. An error's own destructor may enter an interpreter; it does so from this one.
///
/// # Safety
///
/// `context` must come from [`context`], and is freed.
pub(super) unsafe extern "C" fn release(context: *mut c_void) {
    // SAFETY: as the caller vouches.
    let passing = unsafe { Box::from_raw(context.cast::<Passing>()) };
    entered_from_python(passing.domain, || drop_contained("an error", passing));
}
