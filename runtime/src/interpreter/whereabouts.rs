//! Where the calling thread is: whose GIL it holds, and which interpreters it returns to.
//!
//! This module answers each such question, and has all notes that a thread keeps for the answers.
//!
//! Most operations of a host happen inside of another one's visit, or in a host function. To ask CPython each time for the
//! thread's state, and for that which has the GIL, costs more than many an operation. So a thread notes its state when it
//! has taken the GIL. The note says nothing of the GIL: code of the interpreter may release it and call the host (ctypes and
//! cffi do so around each call of a function, a deleter of DLPack may). The interpreter says which state has the GIL. That
//! is a load of a variable.

use super::Inner;
use hydrozoa_loader::{DomainId, current};
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::marker::PhantomData;
use std::ptr;

/// A visit, as its thread has noted it.
#[derive(Clone, Copy)]
struct Visited {
    inner: *const Inner,
    /// The thread's state there.
    state: *mut c_void,
}

thread_local! {
    /// The visit that was noted last.
    static VISITED: Cell<Visited> =
        const { Cell::new(Visited { inner: ptr::null(), state: ptr::null_mut() }) };

    /// The interpreters that this thread has left for another one, and returns to.
    static LEFT: RefCell<Vec<DomainId>> = const { RefCell::new(Vec::new()) };

    /// Whether this is a main thread that tidies its interpreter.
    static TIDIES: Cell<bool> = const { Cell::new(false) };
}

impl Inner {
    /// Whether the calling thread holds the GIL by the state that its last note has. It may hold it otherwise.
    #[inline]
    pub(crate) fn is_held(&self) -> bool {
        let visited = VISITED.get();
        // SAFETY: any thread may ask.
        ptr::eq(visited.inner, self) && unsafe { (self.table.current)() } == visited.state
    }

    /// Whether the calling thread holds the GIL, as the interpreter knows. It may have taken it by itself
    /// (`PyGILState_Ensure`), as ctypes' callbacks do.
    pub(super) fn is_attached(&self) -> bool {
        // Nobody holds the GIL of an interpreter that has crashed. SAFETY: any thread may ask.
        unsafe { (self.table.attached)() != 0 && !self.has_crashed() }
    }

    /// Whether this thread runs the interpreter's code.
    pub(super) fn is_current(&self) -> bool {
        current::domain() == Some(self.domain().id())
    }

    /// Whether this thread runs the interpreter's code, or returns to it further down its stack.
    /// The interpreter cannot be finalized then until this thread has gone on.
    pub(super) fn is_entered(&self) -> bool {
        let domain = self.domain().id();
        self.is_current()
            || LEFT.try_with(|left| left.borrow().contains(&domain)).unwrap_or(false)
            || self.is_attached()
    }

    /// Until the result is dropped, the calling thread is noted to visit this interpreter, which lives longer. It holds the
    /// GIL now.
    #[inline]
    pub(super) fn note_visit(&self) -> Note {
        // SAFETY: any thread may ask. The state that has the GIL is this thread's.
        note(Visited { inner: self, state: unsafe { (self.table.current)() } })
    }
}

/// Whether the last note of the calling thread is of `inner`, which may have ended.
#[inline]
pub(crate) fn is_noted(inner: *const Inner) -> bool {
    ptr::eq(VISITED.get().inner, inner)
}

/// Until the result is dropped, nothing is noted.
#[inline]
pub(super) fn note_nothing() -> Note {
    note(Visited { inner: ptr::null(), state: ptr::null_mut() })
}

#[inline]
fn note(visited: Visited) -> Note {
    Note { before: VISITED.replace(visited), _on_this_thread: PhantomData }
}

/// Restores the note before.
#[must_use = "the note is removed when this is dropped"]
pub(super) struct Note {
    before: Visited,
    _on_this_thread: PhantomData<*mut ()>,
}

impl Drop for Note {
    #[inline]
    fn drop(&mut self) {
        VISITED.set(self.before);
    }
}

/// Until the result is dropped, the calling thread returns to a domain that it has left.
pub(super) fn note_left(domain: DomainId) -> Return {
    // While the thread's own destructors run it returns to no Python.
    let _ = LEFT.try_with(|left| left.borrow_mut().push(domain));
    Return(domain)
}

/// Removes what [`note_left`] has noted.
pub(super) struct Return(DomainId);

impl Drop for Return {
    fn drop(&mut self) {
        // Not the last one where code switches between stacks (greenlets): its visits do not nest.
        let _ = LEFT.try_with(|left| {
            let mut left = left.borrow_mut();
            let place = left.iter().rposition(|one| *one == self.0);
            place.map(|place| left.remove(place))
        });
    }
}

/// Calls `action`, which tidies the interpreter whose main thread this is.
pub(super) fn tidying<R>(action: impl FnOnce() -> R) -> R {
    TIDIES.set(true);
    let result = action();
    TIDIES.set(false);
    result
}

/// Whether the calling thread tidies its interpreter. It must not wait for the end of another one, which may be tidied just now as well and
/// let go of this one.
pub(super) fn tidies() -> bool {
    TIDIES.get()
}
