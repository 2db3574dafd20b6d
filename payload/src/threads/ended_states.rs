//! States of threads that have ended, until a thread that holds the GIL frees them.
//!
//! Only under the GIL can a state be cleared, and a thread that ends must not wait for it: the thread
//! that joins it may hold the GIL. So an ending thread leaves its state here.
//!
//! A state may be used until its thread is gone: destructors that run behind ours, of C++ libraries
//! or pthread keys, may take the GIL once more, and `PyGILState_Ensure` finds the state by a pthread
//! key that only CPython can reset. So a state is freed when the kernel does not know the thread any
//! more. Where another thread has got the number meanwhile, it is freed when that one has ended.

use crate::threads;
use crate::threads::lock_free_list::LockFreeList;
use pyo3_ffi::{
    PyEval_RestoreThread, PyThreadState, PyThreadState_Clear, PyThreadState_Delete,
    PyThreadState_DeleteCurrent, PyThreadState_Get, PyThreadState_GetInterpreter,
    PyThreadState_New, PyThreadState_Swap,
};

/// The state of a thread that has ended or is about to.
struct Ended {
    state: *mut PyThreadState,
    thread: libc::pid_t,
    process: u32,
}

// SAFETY: a state is used by the thread that frees it, under the GIL.
unsafe impl Send for Ended {}

static ENDED: LockFreeList<Ended> = LockFreeList::new();

/// The number of the process, as the host counts them.
fn process() -> u32 {
    // SAFETY: any thread may ask. Without a host nothing calls this.
    crate::HOST.get().map_or(0, |host| unsafe { (host.process)() })
}

/// Leaves the calling thread's state, which it does not use any more.
pub(crate) fn add(state: *mut PyThreadState) {
    let thread = super::number();
    ENDED.push(Ended { state, thread, process: process() });
}

/// Frees the states of threads that are gone, and says whether that was all of them.
///
/// # Safety
///
/// The thread is attached by a state of its own.
pub(crate) unsafe fn free() -> bool {
    let ended = ENDED.take();
    if ended.is_empty() {
        return true;
    }
    let process = process();
    let (mut gone, mut all) = (Vec::new(), true);
    for one in ended {
        if one.process != process {
            // In a forked child CPython has freed the states of all threads that are not there.
            continue;
        }
        // SAFETY: signal 0 is not sent; it asks whether the thread exists (kill(2)).
        if unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), one.thread, 0) } == 0 {
            ENDED.push(one);
            all = false;
        } else {
            gone.push(one.state);
        }
    }
    if !gone.is_empty() {
        // SAFETY: by contract; the states are those of threads that are gone, and each was
        // taken off the list.
        unsafe { delete(&gone) };
    }
    all
}

/// # Safety
///
/// The thread is attached by a state of its own; nobody uses `states`, whose threads are gone.
unsafe fn delete(states: &[*mut PyThreadState]) {
    // SAFETY: attached. Clearing runs destructors of Python objects under this thread's state. From
    // 3.12 on, the deletion of a state also resets the pthread key by which `PyGILState_Ensure` finds
    // a thread's state, and takes the calling thread's for that of the state (`unbind_gilstate_tstate`
    // in Python/pystate.c). The key is set again when a state is attached that it was set to before
    // another one (`tstate_activate`). So this thread attaches a state made for the purpose, and its
    // own again at the end. Without memory for that the cleared states stay as long as the
    // interpreter.
    unsafe {
        for &state in states {
            threads::forget_state(state);
            PyThreadState_Clear(state);
        }
        let own = PyThreadState_Get();
        let carrier = PyThreadState_New(PyThreadState_GetInterpreter(own));
        if carrier.is_null() {
            return;
        }
        PyThreadState_Swap(carrier);
        for &state in states {
            PyThreadState_Delete(state);
        }
        PyThreadState_Clear(carrier);
        PyThreadState_DeleteCurrent();
        PyEval_RestoreThread(own);
    }
}
