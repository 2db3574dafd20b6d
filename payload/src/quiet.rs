//! A moment at which no Python code can change the interpreter's memory.
//!
//! Whoever holds the GIL keeps threads from running Python. Three kinds of threads write Python's memory without it, and each
//! is excluded in another way:
//!
//! - A thread inside of a C function that has released the GIL, such as one that reads into a `bytearray`. It has a thread
//!   state, and states of other threads than the host's are an obstacle. The host keeps its own threads outside.
//! - A thread that takes raw memory, for which CPython asks no GIL. It waits for the heap's lock.
//! - A thread of a sub-interpreter, which has a GIL of its own. Sub-interpreters are an obstacle.

use crate::table::{Others, Purpose, Region};
use crate::{arenas, heap, threads};
use pyo3_ffi::{
    PyInterpreterState_Head, PyInterpreterState_Next, PyInterpreterState_ThreadHead,
    PyThreadState_Next,
};
use std::ffi::{c_int, c_void};

/// See [`crate::table::PayloadTable::owns`].
pub(crate) unsafe extern "C" fn owns(address: *const c_void) -> c_int {
    c_int::from(arenas::owns(address) || heap::owns(address))
}

/// See [`crate::table::PayloadTable::quiet`].
pub(crate) unsafe extern "C" fn quiet(
    action: unsafe extern "C" fn(context: *mut c_void, used: *const Region, count: usize),
    context: *mut c_void,
) -> Others {
    heap::still(|used| {
        // SAFETY: attached, by contract.
        let others = unsafe { others() };
        if others.threads == 0 && others.interpreters == 0 {
            let arenas = arenas::ranges().into_iter().map(|range| (Purpose::ARENAS, range));
            let used: Vec<Region> = std::iter::once((Purpose::RAW, used))
                .chain(arenas)
                .map(|(purpose, range)| Region { purpose, start: range.start, length: range.len() })
                .collect();
            // SAFETY: the host's function for this context, with as many regions as it is told.
            unsafe { action(context, used.as_ptr(), used.len()) };
        }
        others
    })
}

/// Who could change Python's memory: thread states beside this thread's, the main thread's and those of the host's threads,
/// and sub-interpreters.
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
