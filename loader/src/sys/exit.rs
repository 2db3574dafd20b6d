//! The exit of the process, held back while a domain ends on another thread.
//!
//! exit(3) frees the finished parts of glibc's list of handlers (stdlib/exit.c, `__run_exit_handlers`).
//! The end of a domain calls `__cxa_finalize`, which walks that list (stdlib/cxa_finalize.c). glibc does not protect
//! a thread that does so during an exit: it reads freed memory.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::lock::undisturbed;
use super::process::Process;
use super::thread;

/// An exit handler. glibc passes it the status of the exit after its argument (stdlib/exit.c), or 0.
pub(crate) type Handler = unsafe extern "C-unwind" fn(*mut c_void, c_int);

/// A function that on_exit(3) takes.
pub(crate) type StatusFirst = unsafe extern "C-unwind" fn(c_int, *mut c_void);

unsafe extern "C-unwind" {
    /// Registers a function for the end of the process. No library's end takes it out again (stdlib/on_exit.c).
    pub(crate) fn on_exit(function: StatusFirst, argument: *mut c_void) -> c_int;
    /// Registers a handler. A fork leaves the lock of the list as it is, so it is called `undisturbed`.
    pub(crate) fn __cxa_atexit(
        handler: Handler,
        argument: *mut c_void,
        handle: *mut c_void,
    ) -> c_int;
    /// Calls the functions registered with `handle` by `__cxa_atexit`, last first, and removes those registered by
    /// `__cxa_at_quick_exit` and `__register_atfork` (stdlib/cxa_finalize.c).
    pub(crate) fn __cxa_finalize(handle: *mut c_void);
}

thread_local! {
    static FINALIZES: Cell<bool> = const { Cell::new(false) };
}

/// `__cxa_finalize(handle)`, for the end of a library. The handlers that it calls may ask whether a library ends
/// ([`is_end_of_a_library`]).
///
/// # Safety
/// As the Itanium C++ ABI says of it.
pub(crate) unsafe extern "C-unwind" fn finalize(handle: *mut c_void) {
    let before = FINALIZES.replace(true);
    // SAFETY: the caller's promise.
    unsafe { __cxa_finalize(handle) };
    FINALIZES.set(before);
}

/// Whether the calling thread calls exit handlers because a library ends, and not because the process exits.
pub(crate) fn is_end_of_a_library() -> bool {
    FINALIZES.get()
}

/// How long an exit waits at most, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(1);

/// While it lives, an exit of the process (exit(3), the return from `main`) waits up to ten seconds, unless this
/// thread or a child of a fork called it.
#[must_use = "an exit goes on when this is dropped"]
#[derive(Debug)]
pub struct HeldExit(Arc<Work>);

#[derive(Debug)]
struct Work {
    process: Process,
    thread: libc::pid_t,
    has_ended: AtomicBool,
}

impl HeldExit {
    /// `None` if the process is past its exit handlers: then a domain's end is no longer worthwhile.
    ///
    /// An exit calls the handler that was registered last first, also one registered meanwhile. So it waits
    /// before it frees earlier registrations.
    pub fn begin() -> Option<HeldExit> {
        let (process, thread) = (Process::current(), thread::number());
        let work = Arc::new(Work { process, thread, has_ended: AtomicBool::new(false) });
        let handle = Arc::as_ptr(&work).cast_mut().cast();
        let argument = Arc::into_raw(work.clone()).cast_mut().cast();
        // SAFETY: the handler takes the reference that the argument is. The handle is an address that nobody else uses.
        match undisturbed(|| unsafe { __cxa_atexit(wait, argument, handle) }) {
            0 => Some(HeldExit(work)),
            _ => {
                // SAFETY: it was not registered, so this is the only use of the argument.
                drop(unsafe { Arc::from_raw(argument.cast::<Work>()) });
                None
            }
        }
    }
}

impl Drop for HeldExit {
    fn drop(&mut self) {
        let handle = Arc::as_ptr(&self.0).cast_mut().cast();
        // The handler is taken out of the list. It does not wait on this thread. If an exit has taken it out, nothing
        // happens here, and the exit goes on below.
        // SAFETY: the handle is only compared.
        unsafe { __cxa_finalize(handle) };
        self.0.has_ended.store(true, Ordering::Release);
    }
}

/// Waits for the work of another thread.
unsafe extern "C-unwind" fn wait(work: *mut c_void, _status: c_int) {
    // SAFETY: `HeldExit::begin` has registered this reference for this call, and glibc calls a handler once.
    let work = unsafe { Arc::from_raw(work.cast::<Work>()) };
    let is_ours = work.thread == thread::number() || !work.process.is_current();
    let until = Instant::now() + PATIENCE;
    while !is_ours && !work.has_ended.load(Ordering::Acquire) && Instant::now() < until {
        thread::pause(PAUSE);
    }
}
