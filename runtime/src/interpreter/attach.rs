//! Threads and GILs: a thread holds the GIL of at most one interpreter.
//!
//! Two interpreters have two GILs, and a thread that waited for one while it held the other could
//! wait for ever. So a thread that enters an interpreter from inside another (in a host function
//! that Python called, or in a drop) lets go of the outer one's GIL for the time. To Python this
//! looks like any C function that releases the GIL.

use super::Inner;
use crate::payload::table::PayloadTable;
use crate::torch::ThreadState;
use hydrozoa_loader::{Domain, current};
use std::cell::{Cell, RefCell};
use std::ffi::{c_int, c_void};
use std::marker::PhantomData;
use std::ptr;
use std::sync::{Arc, PoisonError, RwLock};

/// The payload's flag in the token of an `enter` that made this thread's state.
const NEW_THREAD: c_int = 1 << 8;

thread_local! {
    /// The interpreter that this thread entered last and has not left, or null. Whether its GIL is
    /// held right now only the interpreter knows: Python code in between may have released it.
    static INNERMOST: Cell<*const Inner> = const { Cell::new(ptr::null()) };

    /// The interpreters that keep a state for this thread.
    static STATES: States = const { States(RefCell::new(Vec::new())) };
}

/// This thread holds an interpreter's GIL, and runs in its domain, until this is dropped.
pub(crate) struct Attached<'a> {
    inner: &'a Inner,
    token: c_int,
    /// Dropped after the GIL has been given back: the outer interpreter resumes then.
    _outside: Outside,
    /// A GIL belongs to a thread.
    _thread: PhantomData<*mut ()>,
}

impl Inner {
    /// Takes the GIL; waits for it. May be nested.
    pub(crate) fn attach(self: &Arc<Self>) -> Attached<'_> {
        let outside = Outside::entering(self);
        // SAFETY: the interpreter is started (an `Inner` exists only then) and not finalized (this
        // reference keeps it alive), and this thread runs in its domain.
        let token = unsafe { (self.table.enter)() };
        if token & NEW_THREAD != 0 {
            // Fails only while the thread's own destructors run; the state then lives as long as
            // the interpreter.
            let _ = STATES.try_with(|states| states.0.borrow_mut().push(self.gate.clone()));
        }
        Attached { inner: self, token, _outside: outside, _thread: PhantomData }
    }
}

impl Inner {
    /// Runs `action`, which may wait for other threads, without the GIL, which they may need; it is
    /// taken back afterwards if this thread held it.
    pub(crate) fn without_gil<R>(&self, action: impl FnOnce() -> R) -> R {
        /// Takes the GIL back, also after a panic.
        struct Suspended<'a>(&'a Inner, *mut c_void);
        impl Drop for Suspended<'_> {
            fn drop(&mut self) {
                if !self.1.is_null() {
                    // SAFETY: the state is the one that `suspend` returned, on this thread.
                    unsafe { (self.0.table.resume)(self.1) };
                }
            }
        }
        // SAFETY: `suspend` does nothing unless this thread holds the GIL; `resume` follows on this
        // thread, when the guard is dropped.
        let _suspended = Suspended(self, unsafe { (self.table.suspend)() });
        action()
    }
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        // SAFETY: the token is that of this thread's `enter`, and guards nest as scopes do.
        unsafe { (self.inner.table.leave)(self.token) };
    }
}

/// Steps out of the interpreter that this thread is inside of, if any, and into a domain.
pub(super) struct Outside {
    previous: *const Inner,
    suspended: *mut c_void,
    domain: Option<current::Entered>,
    torch: Option<ThreadState>,
}

impl Outside {
    fn entering(inner: &Arc<Inner>) -> Self {
        Self::new(Arc::as_ptr(inner), inner.domain())
    }

    /// For the ends of an interpreter's and a thread's life, when nothing refers to an `Inner`.
    pub(super) fn of_any(domain: &Domain) -> Self {
        Self::new(ptr::null(), domain)
    }

    fn new(entered: *const Inner, domain: &Domain) -> Self {
        let previous = INNERMOST.replace(entered);
        let suspended = if previous.is_null() || ptr::eq(previous, entered) {
            ptr::null_mut()
        } else {
            // SAFETY: `INNERMOST` points at an interpreter that a guard further up this thread's
            // stack has borrowed. `suspend` does nothing unless this thread holds its GIL.
            unsafe { ((*previous).table.suspend)() }
        };
        let domain = Some(current::enter(domain.id()));
        // After the domain was entered: it says whose state that is.
        Self { previous, suspended, domain, torch: ThreadState::enter_current() }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        // The outer domain first: its interpreter's code runs next, with its torch modes.
        self.torch = None;
        self.domain = None;
        if !self.suspended.is_null() {
            // SAFETY: as in `new`; the state is the one that `suspend` returned, on this thread.
            unsafe { ((*self.previous).table.resume)(self.suspended) };
        }
        INNERMOST.set(self.previous);
    }
}

/// Marks this thread as inside `inner` for the time of `action`: for host functions that Python
/// code calls, maybe on a thread that Python created.
pub(crate) fn entered_from_python<R>(inner: &Inner, action: impl FnOnce() -> R) -> R {
    struct Reset(*const Inner);
    impl Drop for Reset {
        fn drop(&mut self) {
            INNERMOST.set(self.0);
        }
    }
    let _reset = Reset(INNERMOST.replace(ptr::from_ref(inner)));
    action()
}

/// What an ending thread needs to have its state in an interpreter freed. Not the interpreter
/// itself: it shall end with its last handle, not when some thread gets round to letting go of it.
pub(super) struct Gate {
    domain: Domain,
    table: PayloadTable,
    /// Whether the interpreter has not begun to end. Held for reading while a state is freed.
    open: RwLock<bool>,
}

impl Gate {
    pub(super) fn new(domain: Domain, table: PayloadTable) -> Arc<Self> {
        Arc::new(Self { domain, table, open: RwLock::new(true) })
    }

    /// From now on no ending thread enters the interpreter; waits for those that are inside.
    pub(super) fn close(&self) {
        *self.open.write().unwrap_or_else(PoisonError::into_inner) = false;
    }

    fn forget_thread(&self) {
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        if *open {
            let _outside = Outside::of_any(&self.domain);
            // SAFETY: the interpreter lives while the gate is held open, and a thread that runs its
            // destructors is attached to nothing.
            unsafe { (self.table.forget_thread)() };
        }
    }
}

/// Frees this thread's state in each interpreter when the thread ends.
struct States(RefCell<Vec<Arc<Gate>>>);

impl Drop for States {
    fn drop(&mut self) {
        // The process's first thread ends with the process: destructors of the libraries in an
        // interpreter that is still alive run behind this one, and enter it on this thread (those
        // of libtorch_python do, to let go of what it has registered).
        // SAFETY: neither call has a precondition.
        if unsafe { libc::gettid() == libc::getpid() } {
            return;
        }
        for gate in self.0.take() {
            gate.forget_thread();
        }
    }
}
