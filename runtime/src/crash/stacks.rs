//! The Python stacks, read in a child with a copy of the memory: a fault there ends the child alone.
//!
//! CPython's own function reads them without a lock (`_Py_DumpTracebackThreads`, Python/traceback.c). The child is made by the
//! system call: handlers of pthread_atfork(3) wait for locks, which a crashed or stuck thread may hold.

use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

/// A child takes less than a millisecond, unless the machine is busy.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_micros(500);

/// Makes a child that calls `write` with `output` as descriptor 2. A handler of signals may call this.
///
/// # Errors
///
/// The kernel's refusal, by its number.
pub(crate) fn child(write: unsafe extern "C" fn(), output: c_int) -> Result<libc::pid_t, c_int> {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: the sets are valid. The child calls functions of signal-safety(7) and `write`, which takes no lock, and ends
    // without a return. Handlers of signals do not run in it: all signals are blocked until then.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        // As fork(2), but for the handlers, and without a signal when it ends.
        let process = libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0);
        if process == 0 {
            apart(write, output);
        }
        let error = *libc::__errno_location();
        libc::sigprocmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        if process < 0 { Err(error) } else { Ok(process as libc::pid_t) }
    }
}

/// Waits for a child's end, and ends it if that takes long.
pub(crate) fn wait(child: libc::pid_t) {
    let pause = libc::timespec { tv_sec: 0, tv_nsec: PAUSE.as_nanos() as _ };
    let mut waited = Duration::ZERO;
    // SAFETY: a child of this process that nobody else waits for. It sends no signal, so only __WCLONE finds it.
    unsafe {
        while libc::waitpid(child, ptr::null_mut(), libc::__WCLONE | libc::WNOHANG) == 0 {
            if waited >= PATIENCE {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, ptr::null_mut(), libc::__WCLONE);
                return;
            }
            libc::nanosleep(&pause, ptr::null_mut());
            waited += PAUSE;
        }
    }
}

/// The child's part.
///
/// # Safety
///
/// The process is a child with one thread, which ends here.
unsafe fn apart(write: unsafe extern "C" fn(), output: c_int) -> ! {
    // SAFETY: each call is one of signal-safety(7), except `write`, which faults at worst.
    unsafe {
        let mut ending: libc::sigaction = std::mem::zeroed();
        ending.sa_sigaction = end as *const () as usize;
        let mut faults: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut faults);
        // The default action would write a core file.
        for signal in super::signals::SIGNALS {
            libc::sigaction(signal, &ending, ptr::null_mut());
            libc::sigaddset(&mut faults, signal);
        }
        libc::sigprocmask(libc::SIG_UNBLOCK, &faults, ptr::null_mut());
        if libc::dup2(output, 2) == 2 {
            write();
        }
        libc::_exit(0)
    }
}

/// Ends the child.
extern "C" fn end(_signal: c_int) {
    // SAFETY: one of signal-safety(7).
    unsafe { libc::_exit(1) };
}
