//! Handlers of SIGCHLD, which are all called.
//!
//! The kernel sends the process one signal, whoever started the child that has ended. A library looks for its own children when the signal
//! comes: libuv does (src/unix/process.c, `uv__chld`), a copy of it in each interpreter. So no handler may stand over another one.

use super::handlers::Action;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// The handler of one interpreter's code, or of the program. It lives as long as the process: a handler of signals may look at it.
#[derive(Debug)]
pub(super) struct ChildHandler {
    /// Its address, 0 for none.
    function: AtomicUsize,
    is_listed: AtomicBool,
    next: AtomicPtr<ChildHandler>,
}

static FIRST: AtomicPtr<ChildHandler> = AtomicPtr::new(ptr::null_mut());

/// The program's own.
pub(super) static PROGRAM: ChildHandler = ChildHandler::none();

impl ChildHandler {
    pub(super) const fn none() -> Self {
        Self {
            function: AtomicUsize::new(0),
            is_listed: AtomicBool::new(false),
            next: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Has this action's handler called, if that is a function. One thread at a time sets handlers.
    pub(super) fn set(&'static self, action: Option<&Action>) {
        let function = action.filter(|action| action.is_function() && action.handler != each());
        self.function.store(function.map_or(0, |action| action.handler), Ordering::Release);
        if function.is_some() && !self.is_listed.swap(true, Ordering::Relaxed) {
            self.next.store(FIRST.load(Ordering::Relaxed), Ordering::Relaxed);
            FIRST.store(ptr::from_ref(self).cast_mut(), Ordering::Release);
        }
    }
}

/// The process's action while an interpreter's code has a handler, whatever that code has asked for: no handler is interrupted by another signal
/// but that of a crash, calls of the application go on (`SA_RESTART`), and children stay for those who wait for them (no `SA_NOCLDWAIT`).
pub(super) fn action() -> Action {
    const CRASHES: [c_int; 7] = [
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGABRT,
        libc::SIGSYS,
    ];
    let never = CRASHES.into_iter().chain([libc::SIGKILL, libc::SIGSTOP]);
    let mask = never.fold(u64::MAX, |mask, signal| mask & !(1 << (signal - 1)));
    Action { handler: each(), flags: libc::SA_SIGINFO | libc::SA_RESTART, mask }
}

fn each() -> usize {
    call_each as *const () as usize
}

/// The process's handler.
unsafe extern "C" fn call_each(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    type Function = unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
    let mut next = FIRST.load(Ordering::Acquire);
    // SAFETY: null, or one that lives as long as the process. The function was set for this signal; one that takes the signal alone does not
    // look at the rest. Errno belongs to the code that is interrupted.
    unsafe {
        let errno = *libc::__errno_location();
        while let Some(handler) = next.as_ref() {
            let function = handler.function.load(Ordering::Acquire);
            if function != 0 {
                std::mem::transmute::<usize, Function>(function)(signal, info, context);
            }
            next = handler.next.load(Ordering::Relaxed);
        }
        *libc::__errno_location() = errno;
    }
}
