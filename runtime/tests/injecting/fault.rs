//! A fault at the instruction at which a thread happens to be.
//!
//! The thread gets a signal. Its handler sends the thread a fault, described as the kernel does: only a thread itself may do
//! that (`rt_tgsigqueueinfo(2)`). The handler's mask keeps the fault until the handler returns, so it comes at the
//! instruction that the signal has interrupted, with the registers as they are there.

use std::ffi::{c_int, c_void};
use std::mem::zeroed;
use std::ptr;
use std::sync::atomic::{AtomicI32, Ordering};

/// The signals, each with the code that the kernel gives a fault (siginfo.h).
const FAULTS: [(c_int, c_int); 4] =
    [(libc::SIGSEGV, 1), (libc::SIGBUS, 2), (libc::SIGFPE, 1), (libc::SIGILL, 2)];

/// The place of the next fault in [`FAULTS`].
static NEXT: AtomicI32 = AtomicI32::new(0);

/// The kernel's numbers of the threads that may fault; 0 is nobody. Python writes them. Code that glibc runs at the begin and at
/// the end of a thread is not an interpreter's.
pub static INSIDE: [AtomicI32; 64] = [const { AtomicI32::new(0) }; 64];

/// The outcome of the last signal.
static OUTCOME: AtomicI32 = AtomicI32::new(NOTHING);
const NOTHING: i32 = 0;
const FAULTS_NOW: i32 = 1;
/// It was not inside any more.
const WAS_LATE: i32 = 2;

fn signal() -> c_int {
    libc::SIGRTMIN() + 5
}

unsafe extern "C" fn fault(_signal: c_int, _info: *mut libc::siginfo_t, _context: *mut c_void) {
    let (signal, code) = FAULTS[NEXT.load(Ordering::Relaxed) as usize % FAULTS.len()];
    // SAFETY: zero is a value of every field; the address of a fault is the first word behind the three numbers. The calls are
    // those of signal-safety(7), and errno belongs to the code that is interrupted.
    unsafe {
        let own = libc::gettid();
        if INSIDE.iter().all(|one| one.load(Ordering::Relaxed) != own) {
            OUTCOME.store(WAS_LATE, Ordering::SeqCst);
            return;
        }
        let errno = *libc::__errno_location();
        let mut info: libc::siginfo_t = zeroed();
        (info.si_signo, info.si_code) = (signal, code);
        ptr::from_mut(&mut info).cast::<usize>().add(2).write(0x5eed);
        libc::syscall(
            libc::SYS_rt_tgsigqueueinfo,
            libc::getpid(),
            own,
            signal,
            ptr::from_ref(&info),
        );
        OUTCOME.store(FAULTS_NOW, Ordering::SeqCst);
        *libc::__errno_location() = errno;
    }
}

/// Has the process handle the signal.
pub fn prepare() {
    // SAFETY: zero is a value of every field, and the handler has this form.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        action.sa_sigaction = fault as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        for (signal, _) in FAULTS {
            libc::sigaddset(&mut action.sa_mask, signal);
            // The standard library's handler returns, so that the instruction faults again. Here it would not.
            libc::signal(signal, libc::SIG_DFL);
        }
        assert_eq!(libc::sigaction(signal(), &action, ptr::null_mut()), 0);
    }
}

/// Sends a thread a signal; 0 is none. False if there is no such thread.
fn send(thread: libc::pid_t, signal: c_int) -> bool {
    // SAFETY: no precondition.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) == 0 }
}

/// Has one of the threads that may fault do so.
pub fn inject(random: &mut fastrand::Rng, kind: usize) {
    NEXT.store((kind % FAULTS.len()) as i32, Ordering::SeqCst);
    loop {
        let all = INSIDE.iter().map(|one| one.load(Ordering::SeqCst));
        let all: Vec<_> = all.filter(|thread| *thread != 0).collect();
        if all.is_empty() {
            std::thread::yield_now();
            continue;
        }
        let thread = all[random.usize(..all.len())];
        OUTCOME.store(NOTHING, Ordering::SeqCst);
        // A thread that ends gets no signals any more.
        let mut is_there = send(thread, signal());
        while is_there && OUTCOME.load(Ordering::SeqCst) == NOTHING {
            std::thread::yield_now();
            is_there = send(thread, 0);
        }
        if OUTCOME.load(Ordering::SeqCst) == FAULTS_NOW {
            return;
        }
    }
}

/// The name of such a fault.
pub fn name(kind: usize) -> &'static str {
    ["SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL"][kind % FAULTS.len()]
}
