//! Exceptions that the host raises in threads that run Python code.

use crate::ceiling::Lifted;
use crate::fault::{Fault, Outcome};
use crate::reference::Ref;
use crate::report::guarded;
use crate::table::{Interrupt, Status};
use pyo3_ffi::{
    PyImport_Import, PyInterpreterState_ThreadHead, PyObject, PyObject_GetAttr,
    PyThread_get_thread_ident, PyThreadState, PyThreadState_Get, PyThreadState_GetInterpreter,
    PyThreadState_Next, PyThreadState_SetAsyncExc,
};
use std::cell::UnsafeCell;
use std::ffi::{c_int, c_long, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Whether any thread was ever interrupted.
static USED: AtomicBool = AtomicBool::new(false);

/// See [`crate::table::PayloadTable::interrupt`].
///
/// `PyThreadState_SetAsyncExc` keeps the class for the thread, which raises it between two instructions of bytecode. A
/// second one replaces one that was not raised yet.
///
/// The GIL is not released between the host's look at the call and the exception: the call might end meanwhile, and other code
/// on its thread would be hit. So a class that is needed for the first time is looked up, which runs Python code, and nothing
/// is done.
pub(crate) unsafe extern "C" fn interrupt(
    thread: u64,
    reason: Interrupt,
    done: *mut c_int,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes a valid place. The function takes its own reference to the class, or null.
    unsafe {
        guarded(sink, || {
            USED.store(true, Ordering::Relaxed);
            let exception = match (reason, CLASSES.get(reason)) {
                (Interrupt::NONE, _) => ptr::null_mut(),
                (_, Some(known)) => known,
                (_, None) => {
                    CLASSES.keep(reason, class(reason)?);
                    *done = 0;
                    return Ok(());
                }
            };
            *done = c_int::from(states_of(thread) <= 1);
            let sends = reason == Interrupt::NONE || !Describing::is_one(thread);
            if *done != 0 && sends {
                PyThreadState_SetAsyncExc(thread as c_long, exception);
            }
            Ok(())
        })
    }
}

/// The classes that were looked up, by their reasons. They are kept for as long as the interpreter lives.
struct Classes(UnsafeCell<Vec<(Interrupt, Ref)>>);

// SAFETY: used under the GIL alone.
unsafe impl Sync for Classes {}

static CLASSES: Classes = Classes(UnsafeCell::new(Vec::new()));

impl Classes {
    /// # Safety
    ///
    /// The caller is attached.
    unsafe fn get(&self, reason: Interrupt) -> Option<*mut PyObject> {
        // SAFETY: attached, by contract, and nobody else is meanwhile.
        let classes = unsafe { &*self.0.get() };
        classes.iter().find(|(one, _)| *one == reason).map(|(_, class)| class.as_ptr())
    }

    /// # Safety
    ///
    /// The caller is attached.
    unsafe fn keep(&self, reason: Interrupt, class: Ref) {
        // SAFETY: as above.
        unsafe { (*self.0.get()).push((reason, class)) };
    }
}

/// While it lives, this thread describes an exception to the host, by Python code: an interrupt would get into that.
/// What was left for the thread and not raised is taken back.
pub(crate) struct Describing {
    thread: u64,
    /// The exception may be a MemoryError.
    _lifted: Lifted,
}

/// The threads that describe an exception, and since when. Code that runs for longer is that of the exception's own class,
/// and is interrupted.
struct Describers(UnsafeCell<Vec<(u64, Instant)>>);

// SAFETY: used under the GIL alone.
unsafe impl Sync for Describers {}

static DESCRIBERS: Describers = Describers(UnsafeCell::new(Vec::new()));

impl Describing {
    const LONG: Duration = Duration::from_secs(1);

    /// # Safety
    ///
    /// The thread is attached, now and when this is dropped.
    pub(crate) unsafe fn begin() -> Self {
        // SAFETY: attached, by contract.
        unsafe {
            let thread = PyThread_get_thread_ident();
            if USED.load(Ordering::Relaxed) && states_of(thread) <= 1 {
                PyThreadState_SetAsyncExc(thread as c_long, ptr::null_mut());
            }
            (*DESCRIBERS.0.get()).push((thread, Instant::now()));
            Self { thread, _lifted: Lifted::begin() }
        }
    }

    /// # Safety
    ///
    /// The caller is attached.
    unsafe fn is_one(thread: u64) -> bool {
        // SAFETY: attached, by contract, and nobody else is meanwhile.
        let describers = unsafe { &*DESCRIBERS.0.get() };
        describers.iter().any(|(one, since)| *one == thread && since.elapsed() < Self::LONG)
    }
}

impl Drop for Describing {
    fn drop(&mut self) {
        // SAFETY: attached, by the contract of `begin`, and nobody else is meanwhile.
        let describers = unsafe { &mut *DESCRIBERS.0.get() };
        if let Some(place) = describers.iter().rposition(|(one, _)| *one == self.thread) {
            describers.remove(place);
        }
    }
}

/// How many states carry the identifier of a thread. Up to 3.11 the state of a thread that is about to begin carries that
/// of the thread that starts it (`new_threadstate` in Python/pystate.c), and `PyThreadState_SetAsyncExc` takes the first
/// that it finds.
///
/// # Safety
///
/// The thread is attached.
unsafe fn states_of(thread: u64) -> usize {
    // SAFETY: attached, so no state of the list is deleted. A state that another thread adds stands before all others.
    unsafe {
        let own = PyThreadState_Get();
        let Some(place) = place_of_identifier(own) else { return 1 };
        let mut count = 0;
        let mut state = PyInterpreterState_ThreadHead(PyThreadState_GetInterpreter(own));
        while !state.is_null() {
            count += usize::from(state.cast::<u64>().add(place).read_volatile() == thread);
            state = PyThreadState_Next(state);
        }
        count
    }
}

/// Where a state has its thread's identifier, in words. Each release has another place for it.
///
/// # Safety
///
/// `own` is the state of this thread, which is attached.
unsafe fn place_of_identifier(own: *mut PyThreadState) -> Option<usize> {
    /// Words of a state in which it is looked for. The smallest state, that of 3.10, has more.
    const WORDS: usize = 32;
    // SAFETY: the words lie in the state.
    unsafe {
        let thread = PyThread_get_thread_ident();
        (0..WORDS).find(|&word| own.cast::<u64>().add(word).read_volatile() == thread)
    }
}

/// The exception class for `reason`.
///
/// # Safety
///
/// The thread is attached.
pub(crate) unsafe fn class(reason: Interrupt) -> Outcome<Ref> {
    let Some(name) = reason.class() else {
        let expected = "a reason for an interrupt";
        return Err(Fault::Conversion { expected, reason: format!("{} is none", reason.0) });
    };
    // SAFETY: attached, and the module is alive during the look-up.
    unsafe {
        let module = Ref::text(Interrupt::MODULE.as_bytes())?;
        let module = Ref::owned(PyImport_Import(module.as_ptr()))?;
        let name = Ref::text(name.as_bytes())?;
        Ref::owned(PyObject_GetAttr(module.as_ptr(), name.as_ptr()))
    }
}
