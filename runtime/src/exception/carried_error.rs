//! Errors of Rust on their way through Python: each is held by the exception that Python has in its place.

use crate::Error;
use crate::crash::contain;
use crate::interpreter::{Inner, entered_from_python};
use crate::panics::drop_contained;
use hydrozoa_loader::{DomainId, LeafLock};
use std::ffi::c_void;

/// The Rust error that an exception holds.
struct CarriedError {
    domain: DomainId,
    /// `None` once the host has got it back. Python may raise the exception again.
    error: LeafLock<Option<Error>>,
}

/// The context for an exception of this interpreter. [`release`] frees it.
pub(super) fn context(inner: &Inner, error: Error) -> *mut c_void {
    let domain = inner.domain().id();
    let carried = Box::new(CarriedError { domain, error: LeafLock::new(Some(error)) });
    let context = Box::into_raw(carried).cast();
    contain::give(domain, context, release);
    context
}

/// The error that an exception holds, if the host has not had it before.
///
/// # Safety
///
/// `context` must be null, or come from [`context`] and not be released meanwhile.
pub(super) unsafe fn take(context: *mut c_void) -> Option<Error> {
    // SAFETY: as the caller vouches.
    let passing = unsafe { context.cast::<CarriedError>().as_ref() }?;
    passing.error.with(Option::take)
}

/// Drops what an exception holds. An error's own destructor may enter an interpreter; it does so from this one.
///
/// # Safety
///
/// `context` must come from [`context`], and is freed.
pub(super) unsafe extern "C" fn release(context: *mut c_void) {
    // SAFETY: as the caller vouches.
    let passing = unsafe { Box::from_raw(context.cast::<CarriedError>()) };
    let domain = passing.domain;
    contain::take_back(domain, context);
    entered_from_python(domain, || drop_contained("an error", passing));
    contain::depart();
}
