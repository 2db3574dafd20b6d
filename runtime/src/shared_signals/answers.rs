//! The commands' versions of `sigaction`, `signal` and `kill`.

use super::process::{dispatcher, settle};
use super::relay::Sent;
use super::table::Signals;
use crate::crash;
use hydrozoa_loader::{ignore_children, thread_number};
use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::Ordering;

/// Faults of the code that runs. A handler writes a report for the whole process, and the last one stays.
const FAULTS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];

/// `sigaction(2)`.
///
/// # Safety
///
/// As sigaction(2); `signals` is the address of a [`Signals`].
pub(super) unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
    signals: usize,
) -> c_int {
    let may_change = !matches!(signal, libc::SIGKILL | libc::SIGSTOP);
    // SAFETY: the context is the address of a value that is never freed; the caller's promises are passed on.
    unsafe {
        let signals = &*ptr::with_exposed_provenance::<Signals>(signals);
        let own = signals.actions.get(signal as usize);
        let own = own.filter(|_| may_change && signal > 0 && !FAULTS.contains(&signal));
        let Some(own) = own else { return crash::sigaction(signal, new, old) };
        let before = (own.handler.load(Ordering::Acquire), own.flags.load(Ordering::Acquire));
        let tell = |old: &mut libc::sigaction| {
            *old = std::mem::zeroed();
            (old.sa_sigaction, old.sa_flags) = before;
        };
        // Between vfork(2) and execve(2) the table is still the parent's.
        if signals.is_in_child() {
            let status = libc::sigaction(signal, new, old);
            let dispatches = |old: &&mut libc::sigaction| old.sa_sigaction == dispatcher();
            old.as_mut().filter(dispatches).map(tell);
            return status;
        }
        // The C library keeps signals for itself.
        let refused = libc::sigaction(signal, ptr::null(), ptr::null_mut());
        if refused != 0 {
            return refused;
        }
        if let Some(new) = new.as_ref() {
            own.flags.store(new.sa_flags, Ordering::Release);
            own.handler.store(new.sa_sigaction, Ordering::Release);
            own.is_set.store(true, Ordering::Release);
            if let (libc::SIGCHLD, Some(domain)) = (signal, signals.domain.get()) {
                let is_ignored = new.sa_sigaction == libc::SIG_IGN;
                ignore_children(*domain, is_ignored || new.sa_flags & libc::SA_NOCLDWAIT != 0);
            }
            settle(signal as usize);
        }
        old.as_mut().map(tell);
        0
    }
}

/// `signal(3)`, as BSD has it.
///
/// # Safety
///
/// As above.
pub(super) unsafe extern "C" fn signal(number: c_int, handler: usize, signals: usize) -> usize {
    // SAFETY: zero is a value of every field; the rest is the caller's promise.
    unsafe {
        let mut new: libc::sigaction = std::mem::zeroed();
        (new.sa_sigaction, new.sa_flags) = (handler, libc::SA_RESTART);
        let mut old: libc::sigaction = std::mem::zeroed();
        match sigaction(number, &new, &mut old, signals) {
            0 => old.sa_sigaction,
            _ => libc::SIG_ERR,
        }
    }
}

impl Signals {
    /// `kill(2)` for the command. A signal that it sends to its process and handles is for it alone, and names it. A
    /// process of one thread that signals itself has handled the signal when the call returns (POSIX). So has a command here:
    /// its main thread sends the signal to itself. By the kernel it would go to the process's main thread, and might come
    /// after the command has taken its handler back.
    pub(crate) fn kill(&self, process: libc::pid_t, number: c_int) -> c_int {
        // SAFETY: the calls take numbers.
        unsafe {
            let (own, here) = (libc::getpid(), thread_number());
            if process == own && !self.is_in_child() && self.handles(number) {
                let (code, user) = (libc::SI_QUEUE, libc::getuid());
                let value = ptr::with_exposed_provenance_mut(self.address());
                let sent = Sent { signal: number, code, process: own, user, value };
                // To its main thread: signals of one kind that wait for the process are one, whoever has sent them.
                let main = self.thread.load(Ordering::Acquire);
                let may_wait_there = main != 0 && (main != here || self.takes(number, here));
                if may_wait_there && sent.to(main) || sent.to_process() {
                    return 0;
                }
            }
            libc::kill(process, number)
        }
    }
}
