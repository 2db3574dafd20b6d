//! The visit that the calling thread is in, and whether it has the GIL still.
//!
//! Most operations of a host happen inside of another one's visit, or in a host function. To ask CPython each time for the
//! thread's state, and for that which has the GIL, costs more than many an operation. So a thread notes its state when it
//! has taken the GIL. The note says nothing of the GIL: code of the interpreter may release it and call the host (ctypes and
//! cffi do so around each call of a function, a deleter of DLPack may). The interpreter says which state has the GIL. That
//! is a load of a variable.

use super::Inner;
use std::cell::Cell;
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;

#[derive(Clone, Copy)]
struct Held {
    inner: *const Inner,
    /// The thread's state there.
    state: *mut c_void,
}

thread_local! {
    static HELD: Cell<Held> = const { Cell::new(Held { inner: ptr::null(), state: ptr::null_mut() }) };
}

/// Whether the calling thread holds the GIL of `inner` by the state that its last note has.
#[inline]
pub(crate) fn is_of(inner: &Inner) -> bool {
    let held = HELD.get();
    // SAFETY: any thread may ask.
    ptr::eq(held.inner, inner) && unsafe { (inner.table.current)() } == held.state
}

/// Whether the last note of the calling thread is of `inner`, which may have ended.
#[inline]
pub(crate) fn is_noted(inner: *const Inner) -> bool {
    ptr::eq(HELD.get().inner, inner)
}

/// Until the result is dropped, the calling thread is noted to visit `inner`, which lives longer. It holds the GIL now.
#[inline]
pub(super) fn of(inner: &Inner) -> Note {
    // SAFETY: any thread may ask. The state that has the GIL is this thread's.
    note(Held { inner, state: unsafe { (inner.table.current)() } })
}

/// Until the result is dropped, nothing is noted.
#[inline]
pub(super) fn unknown() -> Note {
    note(Held { inner: ptr::null(), state: ptr::null_mut() })
}

#[inline]
fn note(held: Held) -> Note {
    Note { before: HELD.replace(held), _on_this_thread: PhantomData }
}

/// Restores the note before.
#[must_use = "the note is removed when this is dropped"]
pub(super) struct Note {
    before: Held,
    _on_this_thread: PhantomData<*mut ()>,
}

impl Drop for Note {
    #[inline]
    fn drop(&mut self) {
        HELD.set(self.before);
    }
}
