//! Which interpreter a thread runs, seen from the calls that take and leave a GIL.
//!
//! Sessions and replicas' own threads are marked by the runtime and the loader. Threads of shared
//! libraries are not: autograd's device threads, inter-op workers, threads that run a deleter. They
//! come to an interpreter by taking its GIL, so that is where they are marked. Needed in every
//! release.
//!
//! A thread that belonged to no interpreter stays with the first one it enters (autograd's device
//! threads serve one engine, which is one interpreter's). One that enters an interpreter from
//! another's code (the last reference to a foreign tensor is dropped) returns to its own with the
//! matching release.

use std::cell::RefCell;
use std::ffi::c_void;

use hydrozoa_loader::{DomainId, current};

use super::adapter::{Member, member};

/// The functions of the interpreter's own libpython.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gil {
    ensure: unsafe extern "C-unwind" fn() -> i32,
    release: unsafe extern "C-unwind" fn(i32),
    acquire_thread: unsafe extern "C-unwind" fn(*mut c_void),
    restore_thread: unsafe extern "C-unwind" fn(*mut c_void),
    save_thread: unsafe extern "C-unwind" fn() -> *mut c_void,
}

impl Gil {
    fn of(member: &'static Member) -> &'static Gil {
        member.gil.get_or_init(|| {
            let domain = member.domain().expect("a thunk runs in a built domain");
            let library = domain
                .replicas()
                .into_iter()
                .find(|replica| {
                    replica
                        .path
                        .file_name()
                        .is_some_and(|name| name.to_string_lossy().starts_with("libpython"))
                })
                .and_then(|replica| domain.find(&replica.path))
                .expect("an interpreter's domain holds its libpython");
            let symbol = |name: &str| {
                library.symbol(name).unwrap_or_else(|error| {
                    panic!("libpython lacks a documented function: {error}")
                })
            };
            // SAFETY: functions of CPython's stable API with these signatures.
            unsafe {
                Gil {
                    ensure: std::mem::transmute::<
                        *const c_void,
                        unsafe extern "C-unwind" fn() -> i32,
                    >(symbol("PyGILState_Ensure")),
                    release: std::mem::transmute::<*const c_void, unsafe extern "C-unwind" fn(i32)>(
                        symbol("PyGILState_Release"),
                    ),
                    acquire_thread: std::mem::transmute::<
                        *const c_void,
                        unsafe extern "C-unwind" fn(*mut c_void),
                    >(symbol("PyEval_AcquireThread")),
                    restore_thread: std::mem::transmute::<
                        *const c_void,
                        unsafe extern "C-unwind" fn(*mut c_void),
                    >(symbol("PyEval_RestoreThread")),
                    save_thread: std::mem::transmute::<
                        *const c_void,
                        unsafe extern "C-unwind" fn() -> *mut c_void,
                    >(symbol("PyEval_SaveThread")),
                }
            }
        })
    }
}

/// A visit of a thread to an interpreter, from the code of another.
#[derive(Clone, Copy)]
struct Visit {
    host: DomainId,
    home: DomainId,
    by_state: bool,
    /// How many `PyGILState_Ensure` were nested in the visit's own.
    depth: u32,
}

thread_local! {
    static VISITS: RefCell<Vec<Visit>> = const { RefCell::new(Vec::new()) };
}

/// Marks the thread as running `member`; remembers where a visitor comes from.
fn arrive(member: &Member, by_state: bool) {
    let Some(host) = member.domain().map(hydrozoa_loader::Domain::id) else { return };
    let Some(home) = current::replace(Some(host)) else { return };
    // At thread exit the list is gone, and so is the code to return to.
    let _ = VISITS.try_with(|visits| {
        let mut visits = visits.borrow_mut();
        if home != host {
            visits.push(Visit { host, home, by_state, depth: 0 });
        } else if by_state
            && let Some(visit) = visits.last_mut()
            && visit.by_state
            && visit.host == host
        {
            visit.depth += 1;
        }
    });
}

/// Ends the innermost visit, if it is one to `member` of this kind.
fn leave(member: &Member, by_state: bool) {
    let Some(host) = member.domain().map(hydrozoa_loader::Domain::id) else { return };
    let _ = VISITS.try_with(|visits| {
        let mut visits = visits.borrow_mut();
        let Some(visit) =
            visits.last_mut().filter(|visit| visit.host == host && visit.by_state == by_state)
        else {
            return;
        };
        if visit.depth > 0 {
            visit.depth -= 1;
        } else {
            current::replace(Some(visit.home));
            visits.pop();
        }
    });
}

/// `PyGILState_Ensure()`.
pub(super) unsafe extern "C-unwind" fn ensure(context: usize) -> i32 {
    let member = member(context);
    arrive(member, true);
    // SAFETY: the caller's call.
    unsafe { (Gil::of(member).ensure)() }
}

/// `PyGILState_Release(PyGILState_STATE)`.
pub(super) unsafe extern "C-unwind" fn release(state: i32, context: usize) {
    let member = member(context);
    // SAFETY: the caller's call.
    unsafe { (Gil::of(member).release)(state) };
    leave(member, true);
}

/// `PyEval_AcquireThread(PyThreadState*)`.
pub(super) unsafe extern "C-unwind" fn acquire_thread(state: *mut c_void, context: usize) {
    let member = member(context);
    arrive(member, false);
    // SAFETY: the caller's call.
    unsafe { (Gil::of(member).acquire_thread)(state) }
}

/// `PyEval_RestoreThread(PyThreadState*)`.
pub(super) unsafe extern "C-unwind" fn restore_thread(state: *mut c_void, context: usize) {
    let member = member(context);
    arrive(member, false);
    // SAFETY: the caller's call.
    unsafe { (Gil::of(member).restore_thread)(state) }
}

/// `PyEval_SaveThread()`: the end of a visit that began with `PyEval_AcquireThread`.
pub(super) unsafe extern "C-unwind" fn save_thread(context: usize) -> *mut c_void {
    let member = member(context);
    // SAFETY: the caller's call.
    let state = unsafe { (Gil::of(member).save_thread)() };
    leave(member, false);
    state
}
