//! Functions that the code of one replica has registered with the C library, to be called later.
//!
//! glibc identifies the replica by the value of `__dso_handle` that the registering code passes (Itanium
//! C++ ABI, 3.3.5): an address in the replica.

use std::any::Any;
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::sys::exit;
use crate::sys::guard;
use crate::sys::lock::{Mutex, Once, Rank};

/// The registrations of one replica.
#[derive(Debug)]
pub(crate) struct Registered {
    /// The `__dso_handle` values that handlers of exit, quick_exit and fork were registered with in the C library. Exit
    /// handlers of a domain among several are in its own list.
    handles: Mutex<BTreeSet<usize>>,
    /// Destructors of thread-local objects that have not run.
    thread_destructors: AtomicUsize,
    /// How many of those run.
    running: AtomicUsize,
    /// Whether the last of those withdraws the replica.
    closed: AtomicBool,
    /// Whether those that have not begun do nothing.
    disarmed: AtomicBool,
    /// Data that code still to run refers to.
    kept: Once<Arc<dyn Any + Send + Sync>>,
}

impl Registered {
    pub(crate) fn nothing() -> Registered {
        Registered {
            handles: Mutex::new(Rank::Registered, BTreeSet::new()),
            thread_destructors: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            disarmed: AtomicBool::new(false),
            kept: Once::new(),
        }
    }

    /// Keeps a value as long as the replica: the thunks that its code calls are the domain's.
    pub(crate) fn keep(&self, value: Arc<dyn Any + Send + Sync>) {
        self.kept.get_or_init(|| value);
    }

    /// Whether threads still have destructors to run in the replica's code.
    pub(crate) fn is_pinned(&self) -> bool {
        self.thread_destructors.load(Ordering::Acquire) > 0
    }

    /// Calls the exit handlers that have not run, and forgets those of quick_exit and of forks.
    pub(crate) fn finalize(&self) {
        let handles = std::mem::take(&mut *self.handles.lock());
        for handle in handles {
            // SAFETY: the handle is only compared; the handlers are functions of the replica, which
            // is mapped.
            unsafe {
                guard::call_or_end(
                    "an exit handler",
                    exit::finalize as *const () as usize,
                    [handle, 0, 0],
                )
            };
        }
    }

    /// Remembers a registration with `handle`.
    pub(crate) fn note(&self, handle: *mut c_void) {
        self.handles.lock().insert(handle as usize);
    }

    /// Notes that a thread is to destroy an object by the replica's code.
    pub(crate) fn begin_thread_destructor(&self) {
        self.thread_destructors.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes that such a destructor begins. False if it must not: its replica has ended.
    pub(crate) fn may_destroy(&self) -> bool {
        // In this order, and the other way round by `disarm` and `is_running`: one of both sees the other.
        self.running.fetch_add(1, Ordering::SeqCst);
        let may = !self.disarmed.load(Ordering::SeqCst);
        if !may {
            self.running.fetch_sub(1, Ordering::SeqCst);
        }
        may
    }

    /// Makes threads' destructors that have not begun do nothing: their replica has ended.
    pub(crate) fn disarm(&self) {
        self.disarmed.store(true, Ordering::SeqCst);
    }

    /// Whether a thread runs a destructor that had begun before [`Registered::disarm`].
    pub(crate) fn is_running(&self) -> bool {
        self.running.load(Ordering::SeqCst) > 0
    }

    /// Notes that such a destructor, which [`Registered::may_destroy`] let begin, has run. True if it was the last one of a
    /// replica that was closed meanwhile: then the caller withdraws the replica.
    pub(crate) fn end_thread_destructor(&self) -> bool {
        self.running.fetch_sub(1, Ordering::SeqCst);
        self.thread_destructors.fetch_sub(1, Ordering::SeqCst) == 1
            && self.closed.swap(false, Ordering::SeqCst)
    }

    /// Closes the replica for registrations. True if threads have destructors to run in it: then the
    /// last of them withdraws it.
    pub(crate) fn close(&self) -> bool {
        // In this order, and read in the other by `end_thread_destructor`: one of both sees the other.
        self.closed.store(true, Ordering::SeqCst);
        self.thread_destructors.load(Ordering::SeqCst) > 0
    }
}
