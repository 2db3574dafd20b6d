//! A moment at which no Python code can change the interpreter's memory.
//!
//! A thread that holds the GIL keeps others from running Python. Three kinds of threads write Python's memory without it, and
//! each is excluded in another way:
//!
//! - A thread inside of a C function that has released the GIL, such as one that reads into a `bytearray`. It has a thread
//!   state. The host keeps its own threads outside, and asks the kernel whether the others sleep.
//! - A thread that takes raw memory, for which CPython asks no GIL. It waits for the heap, which the host keeps still.
//! - A thread of a sub-interpreter, which has a GIL of its own. Sub-interpreters are an obstacle.

use crate::allocators::arenas;
use crate::table::Others;
use crate::threads;
use pyo3_ffi::{
    PyInterpreterState_Head, PyInterpreterState_Next, PyInterpreterState_ThreadHead,
    PyThread_get_thread_ident, PyThreadState, PyThreadState_Next,
};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// See [`crate::table::PayloadTable::owns`].
pub(crate) unsafe extern "C" fn owns(address: *const c_void) -> c_int {
    c_int::from(arenas::owns(address))
}

/// See [`crate::table::PayloadTable::others`].
pub(crate) unsafe extern "C" fn counted() -> Others {
    // SAFETY: attached, by contract.
    unsafe { others() }
}

/// Counts those that could change Python's memory: thread states beside this thread's, the main thread's and those of the host's
/// threads, and sub-interpreters.
///
/// # Safety
///
/// The thread is attached.
pub(crate) unsafe fn others() -> Others {
    let mut others = Others { threads: 0, interpreters: 0 };
    // SAFETY: by contract.
    others.interpreters = unsafe { each_other(|_| others.threads += 1) } - 1;
    others
}

/// Calls `action` with the state of each of these threads. Returns the number of interpreters.
///
/// # Safety
///
/// The thread is attached.
unsafe fn each_other(mut action: impl FnMut(*mut PyThreadState)) -> usize {
    let mut interpreters = 0;
    // SAFETY: attached, so no state is deleted. A thread that makes one meanwhile waits for its memory.
    unsafe {
        let mut interpreter = PyInterpreterState_Head();
        while !interpreter.is_null() {
            interpreters += 1;
            let mut state = PyInterpreterState_ThreadHead(interpreter);
            while !state.is_null() {
                if !threads::is_hosts(state) {
                    action(state);
                }
                state = PyThreadState_Next(state);
            }
            interpreter = PyInterpreterState_Next(interpreter);
        }
    }
    interpreters
}

/// Where a thread's state has the thread's identifier (`thread_id` of `struct _ts`, Include/cpython/pystate.h), in words; 0 if that is
/// not known.
static IDENTIFIER: AtomicUsize = AtomicUsize::new(0);

/// Words of a state among which it is: a state is larger on each version, and has it before its middle.
const WORDS: usize = 32;

/// Finds it in the state of this thread.
///
/// # Safety
///
/// `state` is that of this thread, which is attached and has just started the interpreter.
pub(crate) unsafe fn find(state: *mut PyThreadState) {
    // SAFETY: no precondition.
    let own = unsafe { PyThread_get_thread_ident() } as usize;
    // SAFETY: the state is larger than that.
    let mut places = (0..WORDS).filter(|place| unsafe { word(state, *place) } == own);
    if let (Some(place), None) = (places.next(), places.next()) {
        IDENTIFIER.store(place, Ordering::Relaxed);
    }
}

/// # Safety
///
/// `state` is valid, and longer than that.
unsafe fn word(state: *mut PyThreadState, place: usize) -> usize {
    // SAFETY: by contract.
    unsafe { state.cast::<usize>().add(place).read() }
}

/// See [`crate::table::PayloadTable::other_threads`].
pub(crate) unsafe extern "C" fn visit(
    visit: unsafe extern "C" fn(context: *mut c_void, identifier: usize),
    context: *mut c_void,
) {
    let identifier = |state| match IDENTIFIER.load(Ordering::Relaxed) {
        0 => 0,
        // SAFETY: a state of the interpreter.
        place => unsafe { word(state, place) },
    };
    // SAFETY: attached, by contract; `visit` takes what the host has given for it.
    unsafe { each_other(|state| visit(context, identifier(state))) };
}
