//! Threads that enter the interpreter, and work that threads outside of it queue for them.
//!
//! `PyGILState_Ensure` makes a thread state at the outermost entry of a thread and
//! `PyGILState_Release` frees it again (Python/pystate.c). That costs more than most calls. So the first entry of a thread
//! makes the state, and takes a reference to it (`gilstate_counter`). Further entries only exchange it for the one that
//! has the GIL. When the thread ends, `forget_thread` leaves the state to a thread that enters later ([`crate::threads::ended_states`]).

pub(crate) mod ended_states;
pub(crate) mod ending;
pub(crate) mod lock_free_list;
pub(crate) mod other_threads;
pub(crate) mod recursion;

use crate::api::reference::with_exception_aside;
use crate::api::under_gil::UnderGil;
use crate::table::Handle;
use lock_free_list::LockFreeList;
use pyo3_ffi::{
    Py_DECREF, Py_INCREF, PyEval_RestoreThread, PyEval_SaveThread, PyGILState_Ensure,
    PyGILState_GetThisThreadState, PyObject, PyThreadState, PyThreadState_GetID,
    compat::PyThreadState_GetUnchecked,
};
use std::collections::BTreeSet;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

/// In a token: `enter` has made this thread's state. The host calls `forget_thread` for it later.
const NEW_THREAD: c_int = 1 << 8;

/// In a token: the thread did not have the GIL.
const UNLOCKED: c_int = 1;

/// How far to the left a token has the number of units that [`recursion::lower`] took away.
const TAKEN: u32 = 16;

/// The kernel's number of the calling thread, as gettid(2) gives it. glibc has no function for it before 2.30.
pub(crate) fn number() -> libc::pid_t {
    // SAFETY: no precondition.
    let number = unsafe { libc::syscall(libc::SYS_gettid) };
    // The kernel's numbers are of this type.
    number as libc::pid_t
}

/// Where the interpreter is in its life.
pub(crate) static STAGE: AtomicU8 = AtomicU8::new(NEW);
/// Not started.
pub(crate) const NEW: u8 = 0;
/// Threads may enter.
pub(crate) const RUNNING: u8 = 1;
/// Nothing may call Python any more.
pub(crate) const FINALIZED: u8 = 2;

/// Something to do under the GIL.
struct Deferred {
    action: unsafe extern "C" fn(*mut c_void),
    argument: *mut c_void,
}

// SAFETY: both parts are addresses. The contract of `defer` is that any thread may run the action.
unsafe impl Send for Deferred {}

/// The numbers of the states that `enter` has made (`PyThreadState_GetID`, which gives none twice).
static HOSTS: UnderGil<BTreeSet<i64>> = UnderGil::new(BTreeSet::new());

/// The state of the thread that has started the interpreter.
pub(crate) static MAIN: AtomicPtr<PyThreadState> = AtomicPtr::new(ptr::null_mut());

/// Whether a state is that of the thread that has started the interpreter.
pub(crate) fn is_main(state: *mut PyThreadState) -> bool {
    state == MAIN.load(Ordering::Acquire)
}

/// Whether a state is that of one of the host's threads or of the main thread. The calling thread is attached.
pub(crate) fn is_hosts(state: *mut PyThreadState) -> bool {
    // SAFETY: attached; the state is in the interpreter's list, so it is valid.
    is_main(state) || unsafe { (*HOSTS.as_ptr()).contains(&PyThreadState_GetID(state)) }
}

/// Notes that a state is about to be deleted. The calling thread is attached.
pub(crate) fn forget_state(state: *mut PyThreadState) {
    // SAFETY: as above.
    unsafe { (*HOSTS.as_ptr()).remove(&PyThreadState_GetID(state)) };
}

static QUEUE: LockFreeList<Deferred> = LockFreeList::new();

/// References that threads outside have given up. Most are given up by the thread that enters next: a few places will do.
static ASIDE: [AtomicPtr<c_void>; 16] = [const { AtomicPtr::new(ptr::null_mut()) }; 16];

/// Whether these or the list of ended threads may hold anything. An entry asks neither otherwise.
static QUEUED: AtomicBool = AtomicBool::new(false);

/// See [`crate::table::PayloadTable::enter`].
pub(crate) unsafe extern "C" fn enter(room: usize) -> c_int {
    // SAFETY: the host calls this only between start and finalization. A state that this thread has is its own, and lives
    // until the thread ends.
    let (token, outermost) = unsafe {
        let state = PyGILState_GetThisThreadState();
        if state.is_null() {
            (enter_first(room), true)
        } else if PyThreadState_GetUnchecked() == state {
            (recursion::lower(state, room) << TAKEN, false)
        } else {
            // As `PyGILState_Ensure` does for such a thread, but for a count that `enter_first` keeps above zero.
            PyEval_RestoreThread(state);
            (UNLOCKED | recursion::lower(state, room) << TAKEN, true)
        }
    };
    // Not in a nested entry. Freeing an object may run any code and release the GIL, and the host
    // may hold a lock around a call that only takes a reference.
    if outermost {
        drain();
    }
    token
}

/// The entry of a thread without a state.
///
/// # Safety
///
/// As for [`enter`].
#[cold]
unsafe fn enter_first(room: usize) -> c_int {
    // SAFETY: by contract. The second reference is the one that `forget_thread` gives up.
    unsafe {
        PyGILState_Ensure();
        let state = PyGILState_GetThisThreadState();
        (*HOSTS.as_ptr()).insert(PyThreadState_GetID(state));
        UNLOCKED | NEW_THREAD | recursion::lower(state, room) << TAKEN
    }
}

/// See [`crate::table::PayloadTable::leave`].
pub(crate) unsafe extern "C" fn leave(token: c_int) {
    // SAFETY: attached, as `leave` is called; the number is what this thread's `enter` took away. The GIL is released by
    // the entry that took it, in the order of nesting.
    unsafe {
        if token >> TAKEN != 0 {
            recursion::restore(PyGILState_GetThisThreadState(), token >> TAKEN);
        }
        if token & UNLOCKED != 0 {
            PyEval_SaveThread();
        }
    }
}

/// See [`crate::table::PayloadTable::suspend`].
pub(crate) unsafe extern "C" fn suspend() -> *mut c_void {
    if !attached() {
        return ptr::null_mut();
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
    // SAFETY: the interpreter runs, by contract, so the key that is read is its own.
    let state = unsafe { PyGILState_GetThisThreadState() };
    if !state.is_null() {
        ended_states::add(state);
        QUEUED.store(true, Ordering::Release);
    }
}

/// See [`crate::table::PayloadTable::attached`].
pub(crate) unsafe extern "C" fn attached_flag() -> c_int {
    c_int::from(attached())
}

/// See [`crate::table::PayloadTable::current`].
pub(crate) unsafe extern "C" fn current() -> *mut c_void {
    // SAFETY: reads a variable of the runtime or of the thread, and dereferences nothing.
    unsafe { PyThreadState_GetUnchecked().cast() }
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
    // current state is that of the thread that holds the GIL. It is this thread if the state is its
    // own.
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
    if attached() {
        // SAFETY: attached; a reference is given up, once.
        unsafe { release_now(object) };
    } else {
        queue(release_now, object);
    }
}

/// See [`crate::table::PayloadTable::put_aside`].
pub(crate) unsafe extern "C" fn put_aside(object: Handle) -> c_int {
    if STAGE.load(Ordering::Acquire) != RUNNING || attached() {
        return 0;
    }
    let is_put = ASIDE.iter().any(|place| {
        place.load(Ordering::Relaxed).is_null()
            && place
                .compare_exchange(ptr::null_mut(), object, Ordering::Release, Ordering::Relaxed)
                .is_ok()
    });
    if is_put {
        QUEUED.store(true, Ordering::Release);
    }
    c_int::from(is_put)
}

/// See [`crate::table::PayloadTable::release_attached`].
pub(crate) unsafe extern "C" fn release_attached(object: Handle) {
    // SAFETY: the host is attached, and gives a reference up.
    unsafe { release_now(object) };
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
    if !attached() {
        queue(action, argument);
        return;
    }
    // The caller may be raising an exception: a tensor is freed, for example, when the frames that
    // held it unwind.
    // SAFETY: attached, as the action needs; it has not been run before.
    unsafe { with_exception_aside(|| action(argument)) };
}

fn queue(action: unsafe extern "C" fn(*mut c_void), argument: *mut c_void) {
    // The objects of a finalized interpreter no longer exist.
    if STAGE.load(Ordering::Acquire) == FINALIZED {
        return;
    }
    QUEUE.push(Deferred { action, argument });
    QUEUED.store(true, Ordering::Release);
}

/// Runs the actions that threads outside have queued. The thread is attached.
///
/// A destructor may run any Python code, which may release the GIL. Other threads may queue more in the
/// meantime.
pub(crate) fn drain() {
    if !QUEUED.load(Ordering::Relaxed) {
        return;
    }
    while QUEUED.swap(false, Ordering::Acquire) {
        for place in &ASIDE {
            if place.load(Ordering::Relaxed).is_null() {
                continue;
            }
            let object = place.swap(ptr::null_mut(), Ordering::Acquire);
            if !object.is_null() {
                // SAFETY: attached; `put_aside` has taken the reference over.
                unsafe { release_now(object) };
            }
        }
        for deferred in QUEUE.take() {
            // SAFETY: attached, and each action is run once.
            unsafe { (deferred.action)(deferred.argument) };
        }
    }
    free_ended();
}

/// See [`crate::table::PayloadTable::catch_up`].
pub(crate) unsafe extern "C" fn catch_up() {
    drain();
}

/// Frees the states of threads that are gone, and leaves the others for a later entry. The thread is attached.
pub(crate) fn free_ended() {
    // SAFETY: the thread is attached.
    if !unsafe { ended_states::free() } {
        QUEUED.store(true, Ordering::Release);
    }
}
