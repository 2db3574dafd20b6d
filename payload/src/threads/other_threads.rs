//! A moment at which no Python code can change the interpreter's memory.
//!
//! A thread that holds the GIL keeps others from running Python. Three kinds of threads write Python's memory without it, and
//! each is excluded in another way:
//!
//! - A thread inside of a C function that has released the GIL, such as one that reads into a `bytearray`. It has a thread
//!   state, and states of other threads than the host's are an obstacle. The host keeps its own threads outside.
//! - A thread that takes raw memory, for which CPython asks no GIL. It waits for the heap, which the host keeps still.
//! - A thread of a sub-interpreter, which has a GIL of its own. Sub-interpreters are an obstacle.

use crate::allocators::arenas;
use crate::table::Others;
use crate::threads;
use pyo3_ffi::{
    PyInterpreterState_Head, PyInterpreterState_Next, PyInterpreterState_ThreadHead,
    PyThreadState_Next,
};
use std::ffi::{c_int, c_void};

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
    // SAFETY: attached, so no state is deleted. A thread that makes one meanwhile waits for its memory.
    unsafe {
        let mut interpreter = PyInterpreterState_Head();
        while !interpreter.is_null() {
            others.interpreters += 1;
            let mut state = PyInterpreterState_ThreadHead(interpreter);
            while !state.is_null() {
                others.threads += usize::from(!threads::is_hosts(state));
                state = PyThreadState_Next(state);
            }
            interpreter = PyInterpreterState_Next(interpreter);
        }
    }
    others.interpreters -= 1;
    others
}
