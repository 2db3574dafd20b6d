//! The interpreter whose GIL the calling thread is known to hold.
//!
//! Most operations of a host happen inside of another one's visit, or in a host function. To ask CPython each time who
//! holds the GIL costs more than many an operation. So a thread notes it.
//!
//! The note is right while the thread runs the host's code: the interpreter's code that runs in between releases the GIL
//! and takes it back before it returns. Where the interpreter's code calls the host's, it may do so without the GIL (a
//! deleter of DLPack). So each function that foreign code calls makes a note of its own, [`unknown`] if need be.

use super::Inner;
use std::cell::Cell;
use std::marker::PhantomData;
use std::ptr;

thread_local! {
    static HELD: Cell<*const Inner> = const { Cell::new(ptr::null()) };
}

/// Whether the calling thread is known to hold the GIL of `inner`.
#[inline]
pub(crate) fn is_of(inner: *const Inner) -> bool {
    HELD.get() == inner
}

/// Until the result is dropped, the calling thread is known to hold the GIL of `inner`, which lives longer.
#[inline]
pub(super) fn of(inner: &Inner) -> Note {
    note(inner)
}

/// Until the result is dropped, it is not known which GIL the calling thread holds.
#[inline]
pub(super) fn unknown() -> Note {
    note(ptr::null())
}

#[inline]
fn note(inner: *const Inner) -> Note {
    Note { before: HELD.replace(inner), _on_this_thread: PhantomData }
}

/// Restores the note before.
#[must_use = "the note is removed when this is dropped"]
pub(super) struct Note {
    before: *const Inner,
    _on_this_thread: PhantomData<*mut ()>,
}

impl Drop for Note {
    #[inline]
    fn drop(&mut self) {
        HELD.set(self.before);
    }
}
