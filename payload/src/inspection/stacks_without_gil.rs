//! The Python stacks of all threads, without the GIL.
//!
//! CPython has a function for it, `_Py_DumpTracebackThreads` (Python/traceback.c), which takes no lock and allocates nothing.
//! Some releases do not export it. The module `faulthandler` calls it in the signal handler that its `register`
//! installs. So this module has such a handler installed for a signal that nobody sends, takes the handler's address, and
//! puts what was installed before back at once: the signal's handler, and the thread's stack for signals, which `register`
//! replaces by one in Python's memory (`sigaltstack` in Modules/faulthandler.c). The host keeps the handler from the process
//! meanwhile: the loader has a use for such signals too (loader/src/sys/broadcast.rs).

use crate::api::fault::{Fault, Outcome};
use crate::api::own_modules;
use crate::api::reference::Ref;
use crate::exceptions::report::guarded;
use crate::table::Status;
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

/// The handler of `faulthandler`, or 0.
static HANDLER: AtomicUsize = AtomicUsize::new(0);

/// `descriptor` 2, all threads; an earlier handler is not called.
const REGISTER: &str = "import faulthandler\n\
                        faulthandler.register(SIGNAL, file=2, all_threads=True, chain=False)\n\0";

/// The signal whose handler `faulthandler` takes [`HANDLER`] for.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// The last of the real-time signals that nobody handles. A handler of the application stays where it is.
fn free() -> Outcome<c_int> {
    for number in (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev() {
        if action(number, None)?.sa_sigaction == libc::SIG_DFL {
            return Ok(number);
        }
    }
    Err(Fault::Conversion {
        expected: "a signal's handler",
        reason: "the program handles every real-time signal".into(),
    })
}

/// See [`crate::table::PayloadTable::prepare_stacks`].
pub(crate) unsafe extern "C" fn prepare(sink: *mut c_void) -> Status {
    // SAFETY: the host is attached, and passes its own sink.
    unsafe {
        guarded(sink, || match HANDLER.load(Ordering::Acquire) {
            0 => find_handler(),
            _ => Ok(()),
        })
    }
}

/// # Safety
///
/// The thread is attached.
unsafe fn find_handler() -> Outcome<()> {
    // SAFETY: attached; the records are valid for the calls.
    unsafe {
        let signal = free()?;
        let before = action(signal, None)?;
        let mut stack = MaybeUninit::uninit();
        let stack = match libc::sigaltstack(ptr::null(), stack.as_mut_ptr()) {
            0 => Some(stack.assume_init()),
            _ => None,
        };
        let number = Ref::int(signal.into())?;
        let registered =
            own_modules::run(REGISTER, c"_hydrozoa/stacks.py", &[(c"SIGNAL", &number)]);
        if let Some(stack) = stack {
            libc::sigaltstack(&stack, ptr::null_mut());
        }
        let found = action(signal, Some(&before));
        registered?;
        let found = found?;
        // `register` installs nothing if another thread has just had it install the handler.
        if found.sa_sigaction != libc::SIG_DFL {
            SIGNAL.store(signal, Ordering::Release);
            HANDLER.store(found.sa_sigaction, Ordering::Release);
        }
        Ok(())
    }
}

/// The action that is installed for a signal; `new` replaces it.
fn action(signal: c_int, new: Option<&libc::sigaction>) -> Outcome<libc::sigaction> {
    let mut old = MaybeUninit::uninit();
    let new = new.map_or(ptr::null(), ptr::from_ref);
    // SAFETY: both records are valid, or absent. An action that is put back was installed before.
    match unsafe { libc::sigaction(signal, new, old.as_mut_ptr()) } {
        // SAFETY: filled by the call that succeeded.
        0 => Ok(unsafe { old.assume_init() }),
        _ => {
            let reason = std::io::Error::last_os_error().to_string();
            Err(Fault::Conversion { expected: "a signal's handler", reason })
        }
    }
}

/// See [`crate::table::PayloadTable::stacks`].
pub(crate) unsafe extern "C" fn write() {
    let handler = HANDLER.load(Ordering::Acquire);
    if handler > 1 {
        // SAFETY: the address of a handler that takes the signal's number alone: `faulthandler` installs it without
        // SA_SIGINFO. The caller bears what reading without a lock may do.
        unsafe {
            let handler = std::mem::transmute::<usize, unsafe extern "C" fn(c_int)>(handler);
            handler(SIGNAL.load(Ordering::Acquire));
        }
    }
}
