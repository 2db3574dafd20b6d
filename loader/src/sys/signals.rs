//! Signals of the calling thread.

use std::ffi::c_int;
use std::mem::{self, MaybeUninit};
use std::time::Duration;
use std::{io, ptr};

/// The thread takes no signal until this is dropped. The C library leaves out its own two (nptl/pthread_sigmask.c).
pub(crate) struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    pub(crate) fn begin() -> Blocked {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        let mut before = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the first two calls initialize the sets.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::sigemptyset(before.as_mut_ptr());
            libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
            Blocked { before: before.assume_init() }
        }
    }

    /// Sleeps until one of the descriptors is readable, with the signals that the thread takes otherwise. It may return
    /// spuriously.
    ///
    /// # Errors
    /// EINTR after a handler has run. The thread is not cancelled meanwhile (pthread_cancel(3)): the C library's `ppoll`
    /// would be a point of cancellation.
    pub(crate) fn sleep(
        &self,
        descriptors: &mut [libc::pollfd],
        limit: Option<Duration>,
    ) -> io::Result<()> {
        let mut limit = limit.map(|limit| libc::timespec {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(limit.subsec_nanos()),
        });
        let limit = limit.as_mut().map_or(ptr::null_mut(), ptr::from_mut);
        // The kernel's set is the first word of the C library's.
        // SAFETY: a valid array, a limit or null, and a set of eight bytes.
        let status = unsafe {
            libc::syscall(
                libc::SYS_ppoll,
                descriptors.as_mut_ptr(),
                descriptors.len(),
                limit,
                &raw const self.before,
                size_of::<u64>(),
            )
        };
        if status < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        // SAFETY: the set that the thread had.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.before, ptr::null_mut()) };
    }
}

const FAULTS: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Whether some handler of the process ends a system call that it interrupts: it was set without SA_RESTART.
///
/// poll(2) ends after every handler, and cannot tell which has run. Fault handlers run only on a thread that is executing.
pub(crate) fn interrupt_calls() -> bool {
    let mut others = (1..=libc::SIGRTMAX()).filter(|signal| !FAULTS.contains(signal));
    others.any(|signal| {
        // SAFETY: zero is a value of every field; the call asks only.
        unsafe {
            let mut action: libc::sigaction = mem::zeroed();
            libc::sigaction(signal, ptr::null(), &mut action) == 0
                && action.sa_sigaction != libc::SIG_DFL
                && action.sa_sigaction != libc::SIG_IGN
                && action.sa_flags & libc::SA_RESTART == 0
        }
    })
}
