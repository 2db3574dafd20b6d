//! Which domain's code the calling thread runs.
//!
//! Code that all domains share (a system object) asks here which domain it must act for. The thread uses the locale of
//! the domain. The host enters a domain around each call into it. Constructors run in their own domain. A thread that a
//! replica creates begins in the domain of its creator.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::id::DomainId;
use crate::locale;

thread_local! {
    static CURRENT: Cell<Option<DomainId>> = const { Cell::new(None) };
}

/// The domain whose code the calling thread runs, if any.
#[inline]
pub fn domain() -> Option<DomainId> {
    CURRENT.get()
}

/// Where the calling thread's domain stands as long as the thread runs. It is its own, and is only read there.
pub fn place() -> *const Option<DomainId> {
    CURRENT.with(|current| current.as_ptr().cast_const())
}

/// Marks the calling thread as running code of `domain` until the guard is dropped.
///
/// # Safety
///
/// Code that all domains share acts for the marked domain, with that domain's state. So while the calling thread runs code
/// of a domain, the mark must name that domain. This holds after the guard was dropped too: guards end in the reverse
/// order of their beginnings.
#[must_use = "the mark is removed when the guard is dropped"]
#[inline]
pub unsafe fn enter(domain: DomainId) -> Entered {
    let previous = CURRENT.replace(Some(domain));
    locale::follow(Some(domain));
    Entered { previous, _on_this_thread: PhantomData }
}

/// Sets the calling thread's domain and returns the one before, for code that cannot hold a guard
/// over the region it marks (a pair of functions that are called by others).
///
/// # Safety
///
/// As for [`enter`], until the domain is set again.
#[inline]
pub unsafe fn replace(domain: Option<DomainId>) -> Option<DomainId> {
    let previous = CURRENT.replace(domain);
    locale::follow(domain);
    previous
}

/// In a child that code of a domain has forked: that domain's number.
static FORKED_BY: AtomicU64 = AtomicU64::new(NO_DOMAIN);

/// Not a [`DomainId`], which has 32 bits.
const NO_DOMAIN: u64 = u64::MAX;

/// Notes, in a forked child, that code of `domain` has forked.
pub(crate) fn note_fork(domain: DomainId) {
    FORKED_BY.store(domain.0.into(), Ordering::Release);
}

/// Whether this process is a child that code of another domain than `domain` has forked. The threads of `domain`
/// do not exist here, and the locks that they held stay locked.
pub(crate) fn is_left_behind(domain: DomainId) -> bool {
    let forked_by = FORKED_BY.load(Ordering::Acquire);
    forked_by != NO_DOMAIN && forked_by != u64::from(domain.0)
}

/// Restores the domain before [`enter`] when dropped.
#[derive(Debug)]
pub struct Entered {
    previous: Option<DomainId>,
    _on_this_thread: PhantomData<*const ()>,
}

impl Drop for Entered {
    #[inline]
    fn drop(&mut self) {
        CURRENT.set(self.previous);
        locale::follow(self.previous);
    }
}
