//! Threads that enter the interpreter, and what threads outside of it leave for them to do.
//!
//! `PyGILState_Ensure` makes a thread state at the outermost entry of a thread and
//! `PyGILState_Release` frees it again (Python/pystate.c), which costs more than most calls. So the
//! first entry of a thread takes one more reference (the state's `gilstate_counter`), which
//! `forget_thread` gives back when the thread ends.
//!
//! The states kept in this way are listed, because they must end before the interpreter does: up to
//! Python 3.12 `threading._shutdown` waits for a lock that is freed with the state of the thread
//! that first imported `threading` (Lib/threading.py), and that thread may be none that ends.

use crate::table::Handle;
use pyo3_ffi::{
    Py_DECREF, Py_GetVersion, Py_INCREF, PyEval_RestoreThread, PyEval_SaveThread,
    PyGILState_Ensure, PyGILState_GetThisThreadState, PyGILState_Release, PyGILState_STATE,
    PyObject, PyThreadState, PyThreadState_Clear, PyThreadState_Delete,
    compat::PyThreadState_GetUnchecked,
};
use std::ffi::{CStr, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// In a token: `enter` has made this thread's state, and the host shall see to `forget_thread`.
const NEW_THREAD: c_int = 1 << 8;

/// Where the interpreter is in its life.
pub(crate) static STAGE: AtomicU8 = AtomicU8::new(NEW);
/// Not started.
pub(crate) const NEW: u8 = 0;
/// Threads may enter.
pub(crate) const RUNNING: u8 = 1;
/// Nothing of Python may be touched any more.
pub(crate) const FINALIZED: u8 = 2;

/// Something to do under the GIL.
struct Deferred {
    action: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
}

// SAFETY: both parts are addresses; who queues them vouches that any thread may run the action.
unsafe impl Send for Deferred {}

/// A thread state that is kept for an application's thread.
struct Kept {
    state: *mut PyThreadState,
    /// What Python calls the thread: `threading.get_ident()`.
    ident: libc::pthread_t,
}

// SAFETY: an address; it is used under the GIL only.
unsafe impl Send for Kept {}

static KEPT: Mutex<Vec<Kept>> = Mutex::new(Vec::new());

fn kept() -> MutexGuard<'static, Vec<Kept>> {
    // Whoever panicked did not do so in the middle of a change: each is one call.
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps the state that this thread has got by starting the interpreter. Attached.
pub(crate) fn keep_own() {
    // SAFETY: this thread has a state; asking for its own name needs nothing.
    let (state, ident) = unsafe { (PyGILState_GetThisThreadState(), libc::pthread_self()) };
    kept().push(Kept { state, ident });
}

/// Ends the states of all application threads but this one, which is attached.
///
/// # Safety
///
/// None of these threads is attached or will be.
pub(crate) unsafe fn forget_others() {
    // Since 3.13 nothing waits, and finalization may go on with the first state (runtime.main_tstate).
    if minor_version() >= 13 {
        return;
    }
    // SAFETY: this thread is attached, and the others are not, so their states may be freed.
    unsafe {
        let (own, ident) = (PyGILState_GetThisThreadState(), libc::pthread_self());
        let states = std::mem::take(&mut *kept());
        for Kept { state, ident: other } in states {
            // To `threading._shutdown` this thread is also a dead one whose name it has got: it
            // asserts that the lock is still held then, and frees it itself.
            if state != own && other != ident {
                PyThreadState_Clear(state);
                PyThreadState_Delete(state);
            }
        }
    }
}

/// The second number of Python's version, which a payload is built for.
fn minor_version() -> u8 {
    // SAFETY: a static text such as "3.12.1 (main, ...) [GCC ...]".
    let version = unsafe { CStr::from_ptr(Py_GetVersion()) };
    let minor = version.to_bytes().split(|byte| *byte == b'.').nth(1).unwrap_or_default();
    std::str::from_utf8(minor).ok().and_then(|minor| minor.parse().ok()).unwrap_or(u8::MAX)
}

static QUEUE: Mutex<Vec<Deferred>> = Mutex::new(Vec::new());

/// Whether `QUEUE` may hold anything, so that an entry need not lock it.
static QUEUED: AtomicBool = AtomicBool::new(false);

/// See [`crate::table::PayloadTable::enter`].
pub(crate) unsafe extern "C" fn enter() -> c_int {
    // SAFETY: the host calls this only between start and finalization.
    let token = unsafe {
        let new = PyGILState_GetThisThreadState().is_null();
        let state = PyGILState_Ensure();
        if new {
            PyGILState_Ensure();
            keep_own();
        }
        token_of(state) | if new { NEW_THREAD } else { 0 }
    };
    drain();
    token
}

fn token_of(state: PyGILState_STATE) -> c_int {
    match state {
        PyGILState_STATE::PyGILState_LOCKED => 0,
        PyGILState_STATE::PyGILState_UNLOCKED => 1,
    }
}

/// See [`crate::table::PayloadTable::leave`].
pub(crate) unsafe extern "C" fn leave(token: c_int) {
    let state = match token & !NEW_THREAD {
        0 => PyGILState_STATE::PyGILState_LOCKED,
        _ => PyGILState_STATE::PyGILState_UNLOCKED,
    };
    // SAFETY: the host passes what this thread's `enter` returned, in the order of nesting.
    unsafe { PyGILState_Release(state) };
}

/// See [`crate::table::PayloadTable::suspend`].
pub(crate) unsafe extern "C" fn suspend() -> *mut c_void {
    if !attached() {
        return std::ptr::null_mut();
    }
    // SAFETY: this thread holds the GIL.
    unsafe { PyEval_SaveThread() }.cast()
}

/// See [`crate::table::PayloadTable::resume`].
pub(crate) unsafe extern "C" fn resume(state: *mut c_void) {
    if !state.is_null() {
        // SAFETY: the host passes what this thread's `suspend` returned.
        unsafe { PyEval_RestoreThread(state.cast::<PyThreadState>()) };
    }
}

/// See [`crate::table::PayloadTable::forget_thread`].
pub(crate) unsafe extern "C" fn forget_thread() {
    // SAFETY: the interpreter runs, and this thread is not attached.
    unsafe {
        let state = PyGILState_GetThisThreadState();
        if !state.is_null() {
            PyEval_RestoreThread(state);
            drain();
            kept().retain(|kept| kept.state != state);
            // Gives back the reference that `enter` took; the count falls to zero, which frees
            // the state and lets go of the GIL.
            PyGILState_Release(PyGILState_STATE::PyGILState_UNLOCKED);
        }
    }
}

/// See [`crate::table::PayloadTable::attached`].
pub(crate) unsafe extern "C" fn attached_flag() -> c_int {
    c_int::from(attached())
}

/// Whether this thread holds this interpreter's GIL.
///
/// `PyGILState_Check` would answer yes to every thread once the program has made a sub-interpreter
/// (`check_enabled`, Python/pystate.c).
pub(crate) fn attached() -> bool {
    if STAGE.load(Ordering::Acquire) != RUNNING {
        return false;
    }
    // SAFETY: both read pointers of a running interpreter and dereference none. Up to 3.11 the
    // current state is that of whichever thread holds the GIL, which is this one only if it is
    // this one's own.
    unsafe {
        let own = PyGILState_GetThisThreadState();
        !own.is_null() && PyThreadState_GetUnchecked() == own
    }
}

/// See [`crate::table::PayloadTable::retain`].
pub(crate) unsafe extern "C" fn retain(object: Handle) {
    // SAFETY: the host is attached, and the object alive.
    unsafe { Py_INCREF(object.cast::<PyObject>()) };
}

/// See [`crate::table::PayloadTable::release`].
pub(crate) unsafe extern "C" fn release(object: Handle) {
    // SAFETY: a reference is given up, once.
    unsafe { defer(release_now, object) };
}

unsafe extern "C" fn release_now(object: *mut c_void) {
    // SAFETY: run under the GIL, with a reference that was given up.
    unsafe { Py_DECREF(object.cast::<PyObject>()) };
}

/// See [`crate::table::PayloadTable::defer`].
pub(crate) unsafe extern "C" fn defer(
    action: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
) {
    if attached() {
        // SAFETY: attached, as the action needs; it has not been run before.
        unsafe { action(argument) };
        return;
    }
    // What belongs to a finalized interpreter is gone with it.
    if STAGE.load(Ordering::Acquire) == FINALIZED {
        return;
    }
    let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
    queue.push(Deferred { action, argument });
    QUEUED.store(true, Ordering::Release);
}

/// Does what threads outside have left to do. The thread is attached.
///
/// The actions run without the lock: a destructor may run any Python code, which may let go of the
/// GIL, and other threads queue more meanwhile.
pub(crate) fn drain() {
    while QUEUED.swap(false, Ordering::Acquire) {
        let queued = {
            let mut queue = QUEUE.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *queue)
        };
        for deferred in queued {
            // SAFETY: attached, and each action is run once.
            unsafe { (deferred.action)(deferred.argument) };
        }
    }
}
