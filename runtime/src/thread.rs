//! A thread that starts or is an error.
//!
//! A thread of `std::thread` maps a stack for signals after it has begun, to distinguish stack overflow
//! from other faults. It ends the process if the kernel refuses that mapping
//! (library/std/src/sys/pal/unix/stack_overflow.rs).

pub(crate) mod asleep;
mod child_handlers;
pub(crate) mod departure;
pub(crate) mod grace_period;
mod handlers;
pub(crate) mod process_identity;
pub(crate) mod reaction_time;
pub(crate) mod settings;
pub(crate) mod signals;
pub(crate) mod stack;
#[cfg(feature = "async")]
pub(crate) mod waits;

use crate::crash;
use signals::Mask;
use std::any::Any;
use std::ffi::{CString, c_void};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// The result of a thread, or the panic that ended it.
pub(crate) type Outcome<T> = Result<T, Box<dyn Any + Send>>;

/// A running thread, to be joined or detached.
pub(crate) struct Thread<T> {
    thread: libc::pthread_t,
    outcome: Arc<Mutex<Option<Outcome<T>>>>,
}

/// Size of the stack of such threads: that of a process's first thread, for which programs are written.
/// Untouched pages cost nothing.
pub(crate) const STACK: usize = 8 << 20;

type Job = Box<dyn FnOnce() + Send>;

extern "C" fn begin(job: *mut c_void) -> *mut c_void {
    // SAFETY: the box that `start` made for this thread.
    let job = unsafe { Box::from_raw(job.cast::<Job>()) };
    crash::prepare_thread();
    job();
    std::ptr::null_mut()
}

impl<T: Send + 'static> Thread<T> {
    /// Runs `action` on a new thread. The system shows the first 15 bytes of its name.
    ///
    /// # Errors
    ///
    /// The kernel's refusal.
    pub(crate) fn start(
        name: &str,
        action: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self> {
        let outcome = Arc::new(Mutex::new(None));
        let place = outcome.clone();
        let short: Vec<u8> = name.bytes().filter(|&byte| byte != 0).take(15).collect();
        let short = CString::new(short).unwrap_or_default();
        let job: Job = Box::new(move || {
            // SAFETY: names the calling thread, by a string of at most 15 bytes.
            unsafe { libc::pthread_setname_np(libc::pthread_self(), short.as_ptr()) };
            let result = catch_unwind(AssertUnwindSafe(action));
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        });
        let job = Box::into_raw(Box::new(job));
        let mut thread = 0;
        // SAFETY: the attributes are initialized before and destroyed after; `begin` gets the box
        // that it expects.
        let status = unsafe {
            let mut attributes = std::mem::zeroed();
            match libc::pthread_attr_init(&mut attributes) {
                0 => {
                    libc::pthread_attr_setstacksize(&mut attributes, STACK);
                    let status = libc::pthread_create(&mut thread, &attributes, begin, job.cast());
                    libc::pthread_attr_destroy(&mut attributes);
                    status
                }
                refused => refused,
            }
        };
        if status != 0 {
            // SAFETY: the thread that would take it was not created.
            drop(unsafe { Box::from_raw(job) });
            return Err(io::Error::from_raw_os_error(status));
        }
        Ok(Self { thread, outcome })
    }

    /// As [`Thread::start`], for a background thread: it blocks all signals from its first
    /// moment on, so that it takes none that the application blocks or waits for.
    ///
    /// # Errors
    ///
    /// The kernel's refusal.
    pub(crate) fn helper(
        name: &str,
        action: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<Self> {
        let own = Mask::current();
        Mask::block_all();
        let started = Self::start(name, action);
        own.set();
        started
    }

    /// Waits until it has ended.
    pub(crate) fn join(self) -> Outcome<T> {
        // SAFETY: a thread of this process that nobody has waited for.
        unsafe { libc::pthread_join(self.thread, std::ptr::null_mut()) };
        let outcome = self.outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
        outcome.unwrap_or_else(|| Err(Box::new("it ended without a result")))
    }

    /// Detaches it: nobody waits for its end.
    pub(crate) fn detach(self) {
        // SAFETY: a thread of this process that nobody has waited for.
        unsafe { libc::pthread_detach(self.thread) };
    }
}
