//! Which domain's code the calling thread runs.
//!
//! Code that all domains share (a system object) asks here for which domain it must act. The host
//! enters a domain around each call into it. Constructors run in their own domain. A thread that a
//! replica creates begins in the domain of its creator.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::id::DomainId;

thread_local! {
    static CURRENT: Cell<Option<DomainId>> = const { Cell::new(None) };
}

/// The domain whose code the calling thread runs, if any.
pub fn domain() -> Option<DomainId> {
    CURRENT.get()
}

/// Marks the calling thread as running code of `domain` until the guard is dropped.
#[must_use = "the mark is removed when the guard is dropped"]
pub fn enter(domain: DomainId) -> Entered {
    Entered { previous: CURRENT.replace(Some(domain)), _on_this_thread: PhantomData }
}

/// Sets the calling thread's domain and returns the one before, for code that cannot hold a guard
/// over the region it marks (a pair of functions that are called by others).
pub fn replace(domain: Option<DomainId>) -> Option<DomainId> {
    CURRENT.replace(domain)
}

/// Restores the domain before [`enter`] when dropped.
#[derive(Debug)]
pub struct Entered {
    previous: Option<DomainId>,
    _on_this_thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        CURRENT.set(self.previous);
    }
}
