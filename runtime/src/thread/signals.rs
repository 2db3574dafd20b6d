//! Signals belong to the application: what the interpreters of a pool may change of them, and which threads take them.
//!
//! CPython takes itself for the owner of the process. The module `signal` handles SIGINT as soon as it is imported
//! (`signal_get_set_handlers`, Modules/signalmodule.c), the module `readline` handles SIGWINCH (`setup_readline`), and
//! the end of Python resets what has a handler in its table to SIG_DFL (`_PySignal_Fini`). Their handler only notes the
//! signal for Python's main thread, which sleeps in a pool: the signal would be lost. So a pool's interpreters call a
//! `sigaction` of ours. docs/decisions.md has the rules and their reasons.

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;

use hydrozoa_loader::{Domain, Interposition, Library, is_in_replica};

/// The signals of crashes. Their handlers write a report, or handle what virtual machines provoke on purpose. They
/// call the handler before them.
const CRASHES: [c_int; 5] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];

/// Decides about the handlers that code of one interpreter sets. It lives as long as the process, like that code.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    /// Where libpython is. Nothing is refused before that is known.
    libpython: OnceLock<Range<usize>>,
    /// The process whose signals it guards. In a forked child, and between `vfork` and `exec`, signals are the child's.
    process: OnceLock<u32>,
}

impl Guard {
    pub(crate) fn new() -> &'static Self {
        Box::leak(Box::default())
    }

    /// What answers for libc in the interpreter's domain.
    pub(crate) fn interpositions(&'static self) -> [(&'static str, Interposition); 4] {
        let context = ptr::from_ref(self).expose_provenance();
        // SAFETY: sigaction(2) takes three words and signal(3) two. The functions take these, the address of a guard
        // that is never freed, and the caller's.
        unsafe {
            let of_signal = Interposition::with_caller(signal as *const c_void, 2, context);
            let once = Interposition::with_caller(sysv_signal as *const c_void, 2, context);
            [
                ("sigaction", Interposition::with_caller(sigaction as *const c_void, 3, context)),
                ("signal", of_signal),
                ("bsd_signal", of_signal),
                ("__sysv_signal", once),
            ]
        }
    }

    /// Notes where the interpreter's Python is.
    pub(crate) fn runs(&self, domain: &Domain, libpython: &Library) {
        let base = libpython.base();
        let replicas = domain.replicas();
        if let Some(replica) = replicas.iter().find(|replica| replica.base == base) {
            let _ = self.libpython.set(replica.base..replica.base + replica.size);
        }
    }

    /// From now on the application's handlers stay: the interpreter is one of a pool.
    pub(crate) fn close(&self) {
        let _ = self.process.set(std::process::id());
    }

    /// Decides about a call at `caller` that wants `handler` with `flags` in the place of `current`.
    fn decide(
        &self,
        signal: c_int,
        [handler, current]: [usize; 2],
        flags: c_int,
        caller: usize,
    ) -> Decision {
        if self.process.get() != Some(&std::process::id()) {
            return Decision::Pass;
        }
        let is_function = |handler| handler != libc::SIG_DFL && handler != libc::SIG_IGN;
        let of_interpreters = |handler| is_function(handler) && is_in_replica(handler);
        let of_application = is_function(current) && !of_interpreters(current);
        let by_python = self.libpython.get().is_some_and(|range| range.contains(&caller));
        if of_interpreters(handler) {
            // All of CPython's calls go through `PyOS_setsig`, which wants neither flag, but those of the module
            // faulthandler (`faulthandler_register`), whose handler writes the stacks at once.
            let only_notes = by_python && flags & (libc::SA_RESTART | libc::SA_NODEFER) == 0;
            return match CRASHES.contains(&signal) || !only_notes && !of_application {
                true => Decision::Pass,
                false => Decision::Refuse,
            };
        }
        // A handler is put back, or a signal ignored. The application may have set what stands now.
        match of_application || by_python {
            _ if of_interpreters(current) => Decision::Pass,
            true if handler == current => Decision::Keep,
            true => Decision::Refuse,
            false => Decision::Pass,
        }
    }
}

/// What becomes of a call of `sigaction`.
enum Decision {
    Pass,
    /// What it wants is there.
    Keep,
    Refuse,
}

/// `sigaction(2)`.
unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
    guard: usize,
    caller: usize,
) -> c_int {
    // SAFETY: the context is the address of a guard that is never freed; the caller's promises are passed on.
    unsafe {
        let guard = &*ptr::with_exposed_provenance::<Guard>(guard);
        let mut current = MaybeUninit::<libc::sigaction>::uninit();
        let decision = match new.as_ref() {
            Some(new) if libc::sigaction(signal, ptr::null(), current.as_mut_ptr()) == 0 => {
                let handlers = [new.sa_sigaction, current.assume_init_ref().sa_sigaction];
                guard.decide(signal, handlers, new.sa_flags, caller)
            }
            _ => Decision::Pass,
        };
        match decision {
            Decision::Pass => libc::sigaction(signal, new, old),
            Decision::Keep => libc::sigaction(signal, ptr::null(), old),
            Decision::Refuse => {
                *libc::__errno_location() = libc::EPERM;
                -1
            }
        }
    }
}

/// `signal(3)`, as BSD has it.
unsafe extern "C" fn signal(number: c_int, handler: usize, guard: usize, caller: usize) -> usize {
    // SAFETY: as for `sigaction`.
    unsafe { set(number, handler, libc::SA_RESTART, guard, caller) }
}

/// `signal(3)`, as System V has it.
unsafe extern "C" fn sysv_signal(
    number: c_int,
    handler: usize,
    guard: usize,
    caller: usize,
) -> usize {
    // SAFETY: as for `sigaction`.
    unsafe { set(number, handler, libc::SA_RESETHAND | libc::SA_NODEFER, guard, caller) }
}

/// # Safety
/// As for [`sigaction`].
unsafe fn set(number: c_int, handler: usize, flags: c_int, guard: usize, caller: usize) -> usize {
    // SAFETY: zero is a value of every field; the rest is the caller's promise.
    unsafe {
        let mut new: libc::sigaction = std::mem::zeroed();
        (new.sa_sigaction, new.sa_flags) = (handler, flags);
        let mut old: libc::sigaction = std::mem::zeroed();
        match sigaction(number, &new, &mut old, guard, caller) {
            0 => old.sa_sigaction,
            _ => libc::SIG_ERR,
        }
    }
}

/// The signals that a thread blocks.
#[derive(Clone, Copy)]
pub(crate) struct Mask(libc::sigset_t);

impl Mask {
    /// That of the calling thread.
    pub(crate) fn current() -> Self {
        Self::exchange(None)
    }

    /// Blocks every signal in the calling thread. The C library leaves out its own two (nptl/pthread_sigmask.c).
    ///
    /// A signal for the process goes to any thread that does not block it. A program decides by masks which thread
    /// that is, and cannot do so for threads that it does not know. The loader initialises the thread-local data of
    /// threads that block all signals from outside.
    pub(crate) fn block_all() {
        let mut all = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: `sigfillset` initialises the set.
        let all = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            all.assume_init()
        };
        Self::exchange(Some(&all));
    }

    /// Makes it the calling thread's.
    pub(crate) fn set(&self) {
        Self::exchange(Some(&self.0));
    }

    fn exchange(new: Option<&libc::sigset_t>) -> Self {
        let mut old = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: the sets are valid. `sigemptyset` initialises the old one in any case.
        unsafe {
            libc::sigemptyset(old.as_mut_ptr());
            let new = new.map_or(ptr::null(), ptr::from_ref);
            libc::pthread_sigmask(libc::SIG_SETMASK, new, old.as_mut_ptr());
            Self(old.assume_init())
        }
    }
}
