//! What code of replicas registers to be called later by the C library: at the exit of the process
//! or of a thread, and around a fork.
//!
//! Such functions must be called, or forgotten, before their replica's memory goes. glibc knows
//! them by the value of `__dso_handle` that the registering code passes (Itanium C++ ABI, 3.3.5):
//! an address in the replica.

use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::current;
use crate::publish;
use crate::replica::Replica;

/// What one replica has registered.
#[derive(Debug, Default)]
pub(crate) struct Registered {
    /// The `__dso_handle` values that handlers of exit, quick_exit and fork were registered with.
    handles: Mutex<BTreeSet<usize>>,
    /// Destructors of thread-local objects that have not run.
    thread_destructors: AtomicUsize,
    /// Whether the last of those withdraws the replica.
    closed: AtomicBool,
}

impl Registered {
    /// Whether threads still have destructors to run in the replica's code.
    pub(crate) fn is_pinned(&self) -> bool {
        self.thread_destructors.load(Ordering::Acquire) > 0
    }

    /// Calls the exit handlers that have not run, and forgets those of quick_exit and of forks.
    pub(crate) fn finalize(&self) {
        unsafe extern "C" {
            /// Calls what was registered with `handle` by `__cxa_atexit`, last first, and removes
            /// what was by `__cxa_at_quick_exit` and `__register_atfork` (glibc's
            /// stdlib/cxa_finalize.c).
            fn __cxa_finalize(handle: *mut c_void);
        }
        for handle in std::mem::take(&mut *self.handles.lock()) {
            // SAFETY: the handle is only compared; the handlers are functions of the replica, which
            // is mapped.
            unsafe { __cxa_finalize(ptr::with_exposed_provenance_mut(handle)) };
        }
    }
}

/// Splits off the replicas that threads pin: they stay published, and so mapped, until the last
/// thread-local destructor of theirs has run.
pub(crate) fn without_pinned(replicas: Vec<Arc<Replica>>) -> Vec<Arc<Replica>> {
    let (pinned, free): (Vec<_>, Vec<_>) = replicas.into_iter().partition(|replica| {
        // In this order, and read in the other by `destroy_object`: one of both sees the other.
        replica.registered.closed.store(true, Ordering::SeqCst);
        replica.registered.thread_destructors.load(Ordering::SeqCst) > 0
    });
    for replica in pinned {
        tracing::debug!(
            object = %replica.image.path.display(),
            "stays mapped until the destructors of its thread-local objects have run"
        );
    }
    free
}

/// Remembers that something was registered with `handle`, and returns the replica that it is of.
pub(crate) fn note(handle: *mut c_void) -> Option<Arc<Replica>> {
    let replica = publish::find(handle as usize)?;
    replica.registered.handles.lock().insert(handle as usize);
    Some(replica)
}

type Handler = unsafe extern "C-unwind" fn(*mut c_void);

/// `__cxa_atexit(handler, argument, handle)`.
///
/// # Safety
/// As the Itanium C++ ABI says of it.
pub(crate) unsafe extern "C" fn cxa_atexit(
    handler: Handler,
    argument: *mut c_void,
    handle: *mut c_void,
) -> c_int {
    unsafe extern "C" {
        fn __cxa_atexit(handler: Handler, argument: *mut c_void, handle: *mut c_void) -> c_int;
    }
    note(handle);
    // SAFETY: passed on.
    unsafe { __cxa_atexit(handler, argument, handle) }
}

/// `__cxa_at_quick_exit(handler, handle)`, which `at_quick_exit` is made of. glibc passes the handler
/// no argument that means anything.
///
/// # Safety
/// As at_quick_exit (C11, 7.22.4.3).
pub(crate) unsafe extern "C" fn cxa_at_quick_exit(handler: Handler, handle: *mut c_void) -> c_int {
    unsafe extern "C" {
        fn __cxa_at_quick_exit(handler: Handler, handle: *mut c_void) -> c_int;
    }
    note(handle);
    // SAFETY: passed on.
    unsafe { __cxa_at_quick_exit(handler, handle) }
}

struct ThreadDestructor {
    function: Handler,
    object: *mut c_void,
    replica: Arc<Replica>,
}

/// `__cxa_thread_atexit(destructor, object, handle)`, libstdc++'s and glibc's own of the same
/// meaning. glibc would charge the executable, as the handle is in no object that it knows.
///
/// # Safety
/// As the Itanium C++ ABI says of it.
pub(crate) unsafe extern "C" fn cxa_thread_atexit(
    function: Handler,
    object: *mut c_void,
    handle: *mut c_void,
) -> c_int {
    unsafe extern "C" {
        fn __cxa_thread_atexit_impl(
            function: Handler,
            object: *mut c_void,
            handle: *mut c_void,
        ) -> c_int;
        /// This object's own handle.
        static mut __dso_handle: c_void;
    }
    let Some(replica) = publish::find(handle as usize) else {
        // SAFETY: passed on.
        return unsafe { __cxa_thread_atexit_impl(function, object, handle) };
    };
    replica.registered.thread_destructors.fetch_add(1, Ordering::SeqCst);
    let pending = Box::into_raw(Box::new(ThreadDestructor { function, object, replica }));
    // SAFETY: `destroy_object` takes the box over, on this thread.
    unsafe { __cxa_thread_atexit_impl(destroy_object, pending.cast(), &raw mut __dso_handle) }
}

unsafe extern "C-unwind" fn destroy_object(pending: *mut c_void) {
    // SAFETY: made by `cxa_thread_atexit` for this call alone.
    let pending = unsafe { Box::from_raw(pending.cast::<ThreadDestructor>()) };
    let ThreadDestructor { function, object, replica } = *pending;
    {
        let _inside = current::enter(replica.domain);
        // SAFETY: registered so by the replica's code, which is mapped as long as `replica` lives.
        unsafe { function(object) };
    }
    let registered = &replica.registered;
    if registered.thread_destructors.fetch_sub(1, Ordering::SeqCst) == 1
        && registered.closed.swap(false, Ordering::SeqCst)
    {
        publish::withdraw(&[replica]);
    }
}
