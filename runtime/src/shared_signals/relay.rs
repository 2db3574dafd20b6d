//! A signal for the process on its way to a thread of it.

use std::ffi::{c_int, c_void};
use std::ptr;

/// Marks a signal that one command's thread has passed on to another's.
static MARK: u8 = 0;

/// Whether a signal has been passed on.
pub(super) fn is_passed_on(info: &libc::siginfo_t) -> bool {
    // SAFETY: signals of this code have a value (sigqueue(3)).
    info.si_code == libc::SI_QUEUE && unsafe { info.si_value() }.sival_ptr == mark()
}

fn mark() -> *mut c_void {
    ptr::from_ref(&MARK).cast_mut().cast()
}

/// Sends a signal that the process has got to a thread of it, marked, and with its sender. If the thread has ended, there is
/// nothing to do.
pub(super) fn pass_on(info: &libc::siginfo_t, thread: c_int) {
    // SAFETY: the kernel wrote the sender, or zeroes.
    let (process, user) = unsafe { (info.si_pid(), info.si_uid()) };
    let sent = Sent { signal: info.si_signo, code: libc::SI_QUEUE, process, user, value: mark() };
    let _ = sent.to(thread);
}

/// The data sent with a signal to a thread of this process.
pub(super) struct Sent {
    pub(super) signal: c_int,
    pub(super) code: c_int,
    pub(super) process: libc::pid_t,
    pub(super) user: libc::uid_t,
    pub(super) value: *mut c_void,
}

impl Sent {
    /// Sends it. False if the thread has ended.
    pub(super) fn to(&self, thread: c_int) -> bool {
        // SAFETY: the kernel reads one description.
        self.queued(|own, signal, queued| unsafe {
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, own, thread, signal, queued)
        })
    }

    /// Sends it to this process, for any thread that does not block it. False if the kernel refuses.
    pub(super) fn to_process(&self) -> bool {
        // SAFETY: as above.
        self.queued(|own, signal, queued| unsafe {
            libc::syscall(libc::SYS_rt_sigqueueinfo, own, signal, queued)
        })
    }

    /// Whether the call succeeds that is given the process's number, the signal and its description.
    fn queued(&self, send: impl FnOnce(c_int, c_int, *const c_void) -> libc::c_long) -> bool {
        /// As the kernel has a signal with a value (`siginfo_t` in asm-generic/siginfo.h).
        #[repr(C)]
        struct Queued {
            signal: c_int,
            errno: c_int,
            code: c_int,
            _alignment: c_int,
            process: libc::pid_t,
            user: libc::uid_t,
            value: *mut c_void,
            _rest: [u64; 12],
        }
        const { assert!(size_of::<Queued>() == size_of::<libc::siginfo_t>()) };
        let Self { signal, code, process, user, value } = *self;
        let errno = 0;
        let queued =
            Queued { signal, errno, code, _alignment: 0, process, user, value, _rest: [0; 12] };
        // SAFETY: takes nothing.
        let own = unsafe { libc::getpid() };
        send(own, signal, (&raw const queued).cast()) == 0
    }
}
