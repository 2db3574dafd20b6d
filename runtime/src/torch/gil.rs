//! Which interpreter a thread runs, noted where it takes and leaves a GIL.
//!
//! The runtime marks the threads of sessions, and the loader those that a replica creates. Nobody
//! marks the threads of shared libraries: autograd's device threads, inter-op workers, threads that
//! run a deleter. Such a thread enters an interpreter when it takes the GIL, and is marked there.
//! Needed in every release.
//!
//! When the thread releases that GIL, it returns to where it came from. A worker returns to no
//! interpreter: its next task may be another one's. A thread that dropped the last reference to
//! another interpreter's tensor returns to its own. Autograd's device threads serve one engine, and
//! an engine has one interpreter. They belong to it from their start.

use std::cell::RefCell;
use std::ffi::c_void;

use hydrozoa_loader::{DomainId, current};

use super::adapter::{Member, symbols};
use super::anomaly;
use super::exported::Answer;
use super::libpython::PYTHON;
use super::symbols::EXPORTS;

/// What the domain of `member` interposes.
pub(super) fn interpositions(member: &'static Member) -> Vec<Answer> {
    // SAFETY: each function does for its interpreter what the symbol that its documentation names
    // does for the process.
    unsafe {
        vec![
            PYTHON.ensure.answered_by(ensure, member),
            PYTHON.release.answered_by(release, member),
            PYTHON.acquire_thread.answered_by(acquire_thread, member),
            PYTHON.restore_thread.answered_by(restore_thread, member),
            PYTHON.save_thread.answered_by(save_thread, member),
            PYTHON.delete_current.answered_by(delete_current, member),
            EXPORTS.engine_thread.answered_by(engine_thread, member),
        ]
    }
}

/// A visit of a thread to an interpreter, from the code of another or of none.
#[derive(Clone, Copy)]
struct Visit {
    host: DomainId,
    home: Option<DomainId>,
    /// Begun by `PyGILState_Ensure`, and so ended by its `Release`.
    by_state: bool,
    /// How many `PyGILState_Ensure` were nested in the visit's own.
    depth: u32,
    /// `PyEval_SaveThread` was its last call: the visit ended, or it works without the GIL.
    released: bool,
}

thread_local! {
    static VISITS: RefCell<Vec<Visit>> = const { RefCell::new(Vec::new()) };
}

/// Marks the thread as running `member`; remembers where a visitor comes from.
fn arrive(member: &Member, by_state: bool) {
    let Some(host) = member.domain_id() else { return };
    // SAFETY: the thread runs the member's code next; `leave` sets the domain again.
    let home = unsafe { current::replace(Some(host)) };
    // At thread exit the list is gone, and so is the code to return to.
    let _ = VISITS.try_with(|visits| {
        let mut visits = visits.borrow_mut();
        if home == Some(host) {
            match visits.last_mut().filter(|visit| visit.host == host) {
                Some(visit) if by_state && visit.by_state => visit.depth += 1,
                Some(visit) => visit.released = false,
                None => {}
            }
            return;
        }
        // A worker begins its next task, and has left the interpreter of the one before.
        let over = visits.pop_if(|visit| visit.released);
        visits.push(Visit {
            host,
            home: over.map_or(home, |over| over.home),
            by_state,
            depth: 0,
            released: false,
        });
    });
}

/// What ends a visit, or may.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// `PyGILState_Release`.
    State,
    /// `PyThreadState_DeleteCurrent`, the end of a visit that `PyEval_AcquireThread` began with a
    /// new thread state.
    Thread,
    /// `PyEval_SaveThread`: the end of one that began with an old thread state, or a pause.
    Save,
}

/// Ends the innermost visit, if it is one to `member` that ends so.
fn leave(member: &Member, end: End) {
    let Some(host) = member.domain_id() else { return };
    let _ = VISITS.try_with(|visits| {
        let mut visits = visits.borrow_mut();
        let by_state = end == End::State;
        let Some(visit) =
            visits.last_mut().filter(|visit| visit.host == host && visit.by_state == by_state)
        else {
            return;
        };
        if visit.depth > 0 {
            visit.depth -= 1;
        } else if end == End::Save && visit.home.is_none() {
            // Python of a worker may have called torch, which releases the GIL and takes it back.
            visit.released = true;
        } else {
            // SAFETY: the thread goes on with the code that it came from.
            unsafe { current::replace(visit.home) };
            visits.pop();
        }
    });
}

/// `PyGILState_Ensure()`.
unsafe extern "C-unwind" fn ensure(member: &'static Member) -> i32 {
    arrive(member, true);
    // SAFETY: the caller's call.
    unsafe { (member.libpython().ensure)() }
}

/// `PyGILState_Release(PyGILState_STATE)`.
unsafe extern "C-unwind" fn release(state: i32, member: &'static Member) {
    // SAFETY: the caller's call.
    unsafe { (member.libpython().release)(state) };
    leave(member, End::State);
}

/// `PyEval_AcquireThread(PyThreadState*)`.
unsafe extern "C-unwind" fn acquire_thread(state: *mut c_void, member: &'static Member) {
    arrive(member, false);
    // SAFETY: the caller's call.
    unsafe { (member.libpython().acquire_thread)(state) }
}

/// `PyEval_RestoreThread(PyThreadState*)`.
unsafe extern "C-unwind" fn restore_thread(state: *mut c_void, member: &'static Member) {
    arrive(member, false);
    // SAFETY: the caller's call.
    unsafe { (member.libpython().restore_thread)(state) }
}

/// `PyThreadState_DeleteCurrent()`.
unsafe extern "C-unwind" fn delete_current(member: &'static Member) {
    // SAFETY: the caller's call.
    unsafe { (member.libpython().delete_current)() };
    leave(member, End::Thread);
}

/// `PyEval_SaveThread()`.
unsafe extern "C-unwind" fn save_thread(member: &'static Member) -> *mut c_void {
    anomaly::notice(member);
    // SAFETY: the caller's call.
    let state = unsafe { (member.libpython().save_thread)() };
    leave(member, End::Save);
    state
}

/// `torch::autograd::Engine::thread_init(int, const std::shared_ptr<ReadyQueue>&, bool)`, as the
/// interpreter's engine calls it: the life of a device thread.
unsafe extern "C-unwind" fn engine_thread(
    engine: *mut c_void,
    device: i32,
    queue: *const c_void,
    increment: bool,
    member: &'static Member,
) {
    // SAFETY: the engine's thread runs the member's code until it ends.
    let _serves = member.domain_id().map(|domain| unsafe { current::enter(domain) });
    // SAFETY: the caller's arguments.
    unsafe { (symbols().engine_thread)(engine, device, queue, increment) };
}
