//! The Python stacks, read in a child: a fault there ends the child alone.
//!
//! CPython's own function reads them without a lock (`_Py_DumpTracebackThreads`, Python/traceback.c). The child is made by the
//! system call: handlers of pthread_atfork(3) wait for locks, which a crashed or stuck thread may hold.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::time::Duration;

/// A child takes less than a millisecond, unless the machine is busy.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_micros(500);

/// Bytes of the stack of a child that has none of its own.
const STACK: usize = 256 << 10;

/// The memory that a child reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChildMemory {
    /// A copy, in which nothing changes any more. To make it stops every thread of the process that maps memory, for some
    /// milliseconds with torch; each page that a thread writes afterwards costs it a fault.
    Copied,
    /// The process's own. Other threads notice nothing.
    Shared,
}

/// The child's work.
struct Work {
    write: unsafe extern "C" fn(),
    output: c_int,
}

/// Has a child call `write` with `output` as descriptor 2, and waits for its end. A handler of signals may call this.
///
/// # Errors
///
/// The kernel's refusal, by its number.
pub(crate) fn read(
    write: unsafe extern "C" fn(),
    output: c_int,
    memory: ChildMemory,
) -> Result<(), c_int> {
    let work = Work { write, output };
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: the sets are valid. The child calls functions of signal-safety(7) and `write`, which takes no lock, and ends
    // without a return, before its work and its stack do. Handlers of signals do not run in it: all signals are blocked until
    // then.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr());
        let outcome = match memory {
            ChildMemory::Copied => copied(&work).map(wait),
            ChildMemory::Shared => sharing(&work),
        };
        libc::sigprocmask(libc::SIG_SETMASK, before.as_ptr(), ptr::null_mut());
        outcome
    }
}

/// # Safety
///
/// All signals are blocked.
unsafe fn copied(work: &Work) -> Result<libc::pid_t, c_int> {
    // SAFETY: as fork(2), but for the handlers, and without a signal when it ends.
    unsafe {
        match libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) {
            0 => apart(work),
            process if process < 0 => Err(*libc::__errno_location()),
            process => Ok(process as libc::pid_t),
        }
    }
}

/// A child that shares the memory, and nothing else: it has handlers and descriptors of its own, as one of posix_spawn(3).
///
/// # Safety
///
/// All signals are blocked.
unsafe fn sharing(work: &Work) -> Result<(), c_int> {
    extern "C" fn begin(work: *mut c_void) -> c_int {
        // SAFETY: the work of `sharing`, which waits for the end of this child.
        unsafe { apart(&*work.cast::<Work>()) }
    }
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
    // SAFETY: new memory, which nobody uses any more when it goes.
    unsafe {
        let stack = libc::mmap(ptr::null_mut(), STACK, both, flags, -1, 0);
        if stack == libc::MAP_FAILED {
            return Err(*libc::__errno_location());
        }
        let work = ptr::from_ref(work).cast_mut().cast();
        let outcome = match libc::clone(begin, stack.byte_add(STACK), libc::CLONE_VM, work) {
            process if process < 0 => Err(*libc::__errno_location()),
            process => Ok(process),
        };
        let outcome = outcome.map(wait);
        libc::munmap(stack, STACK);
        outcome
    }
}

/// Waits for a child's end, and ends it if that takes long.
fn wait(child: libc::pid_t) {
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
unsafe fn apart(work: &Work) -> ! {
    // SAFETY: each call is one of signal-safety(7), except `write`, which faults at worst.
    unsafe {
        // Damaged memory may lead it in a circle: then the parent ends it, or the parent's end does.
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
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
        if libc::dup2(work.output, 2) == 2 {
            (work.write)();
        }
        libc::_exit(0)
    }
}

/// Ends the child.
extern "C" fn end(_signal: c_int) {
    // SAFETY: one of signal-safety(7).
    unsafe { libc::_exit(1) };
}
