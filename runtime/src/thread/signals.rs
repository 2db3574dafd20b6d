//! Signals belong to the application: what the interpreters of a pool may change of them, and which threads take them.
//!
//! CPython takes itself for the owner of the process. The module `signal` handles SIGINT as soon as it is imported
//! (`signal_get_set_handlers`, Modules/signalmodule.c), the module `readline` handles SIGWINCH (`setup_readline`), and
//! the end of Python resets what has a handler in its table to SIG_DFL (`_PySignal_Fini`). Their handler only notes the
//! signal for Python's main thread, which sleeps in a pool: the signal would be lost. So a pool's interpreters call a
//! `sigaction` of ours. docs/decisions.md has the rules and their reasons.

use super::handlers::{Action, Decision, Handlers};
use super::process_identity::ProcessIdentity;
use super::settings::note_mask;
use crate::crash;
use std::cell::Cell;
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

/// `sigset(3)` blocks the signal instead (signal.h).
const SIG_HOLD: usize = 2;

/// Decides about the handlers that code of one interpreter sets. It lives as long as the process, like that code.
#[derive(Debug)]
pub(crate) struct Guard {
    /// Where libpython is. Nothing is refused before that is known.
    libpython: OnceLock<Range<usize>>,
    /// The process whose signals it guards. In a forked child, and between `vfork` and `exec`, signals are the child's.
    process: OnceLock<ProcessIdentity>,
    handlers: Handlers,
}

impl Guard {
    pub(crate) fn new() -> &'static Self {
        Box::leak(Box::new(Self {
            libpython: OnceLock::new(),
            process: OnceLock::new(),
            handlers: Handlers::none(),
        }))
    }

    /// The functions that answer for libc in the interpreter's domain.
    pub(crate) fn interpositions(&'static self) -> [(&'static str, Interposition); 10] {
        let context = ptr::from_ref(self).expose_provenance();
        // SAFETY: the functions take as many words as those of <signal.h>, the address of a guard that is never freed, and the
        // caller's.
        let of = |function: *const c_void, arguments| unsafe {
            Interposition::with_caller(function, arguments, context)
        };
        let (bsd, once) = (of(signal as *const c_void, 2), of(sysv_signal as *const c_void, 2));
        [
            ("sigaction", of(sigaction as *const c_void, 3)),
            ("__sigaction", of(sigaction as *const c_void, 3)),
            ("signal", bsd),
            ("bsd_signal", bsd),
            ("ssignal", bsd),
            ("sysv_signal", once),
            ("__sysv_signal", once),
            ("sigset", of(sigset as *const c_void, 2)),
            ("sigignore", of(sigignore as *const c_void, 1)),
            ("siginterrupt", of(siginterrupt as *const c_void, 2)),
        ]
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
        let _ = self.process.set(ProcessIdentity::current());
    }

    /// The interpreter has ended. None of its handlers is called any more.
    pub(crate) fn end(&'static self) {
        if self.guards() {
            self.handlers.end();
        }
    }

    fn guards(&self) -> bool {
        self.process.get().is_some_and(ProcessIdentity::is_current)
    }

    /// Decides about a call at `caller` that wants `new`. The code has set `own` before, over the program's action.
    fn decide(
        &self,
        signal: c_int,
        new: &Action,
        own: Option<&Action>,
        program: &Action,
        caller: usize,
    ) -> Decision {
        let of_interpreters =
            |action: &Action| action.is_function() && is_in_replica(action.handler);
        let of_application = program.is_function() && !of_interpreters(program);
        let by_python = self.libpython.get().is_some_and(|range| range.contains(&caller));
        if of_interpreters(new) {
            // All of CPython's calls go through `PyOS_setsig`, which wants neither flag, but those of the module
            // faulthandler (`faulthandler_register`), whose handler writes the stacks at once.
            let only_notes = by_python && new.flags & (libc::SA_RESTART | libc::SA_NODEFER) == 0;
            // Each handler of SIGCHLD is called, the application's too.
            let is_free = !of_application || signal == libc::SIGCHLD;
            return match CRASHES.contains(&signal) || !only_notes && is_free {
                true => Decision::Pass,
                false => Decision::Refuse,
            };
        }
        // A handler is put back, or a signal ignored. The application may have set what stands now.
        match of_application || by_python {
            _ if own.is_some() => Decision::Pass,
            true if new.handler == program.handler => Decision::Keep,
            true => Decision::Refuse,
            false => Decision::Pass,
        }
    }

    /// Does the work of `sigaction(2)`, for a call at `caller`.
    fn exchange(
        &'static self,
        signal: c_int,
        new: Option<Action>,
        caller: usize,
    ) -> Result<Action, c_int> {
        if let Some(before) = Trial::exchange(new) {
            return Ok(before);
        }
        if self.guards() {
            return self.handlers.exchange(signal, new, |new, own, program| {
                self.decide(signal, new, own, program, caller)
            });
        }
        let mut old = MaybeUninit::<libc::sigaction>::uninit();
        let new = new.map(Action::into_libc);
        let new = new.as_ref().map_or(ptr::null(), ptr::from_ref);
        // SAFETY: the action is the caller's, and the place is written if the call succeeds.
        unsafe {
            match crash::sigaction(signal, new, old.as_mut_ptr()) {
                0 => Ok(Action::of(old.assume_init_ref())),
                _ => Err(*libc::__errno_location()),
            }
        }
    }
}

thread_local! {
    /// Whether the calling thread tries actions.
    static TRIES: Cell<bool> = const { Cell::new(false) };
    /// The one that it has set last.
    static TRIED: Cell<Option<Action>> = const { Cell::new(None) };
}

/// While it lives, an action that code on the calling thread sets does not reach the process. The code is told of it as
/// of any other.
pub(crate) struct Trial(());

impl Trial {
    pub(crate) fn begin() -> Self {
        TRIES.set(true);
        Self(())
    }

    /// The action set before, on a thread that tries.
    fn exchange(new: Option<Action>) -> Option<Action> {
        if !TRIES.get() {
            return None;
        }
        let before = TRIED.get();
        if new.is_some() {
            TRIED.set(new);
            return Some(before.unwrap_or(Action::new(libc::SIG_DFL, 0)));
        }
        before
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        TRIES.set(false);
        TRIED.set(None);
    }
}

/// The guard of a thunk's context.
fn guard(context: usize) -> &'static Guard {
    // SAFETY: the context is the address of a guard that is never freed.
    unsafe { &*ptr::with_exposed_provenance::<Guard>(context) }
}

/// Leaves the number of an error for the caller.
fn refused<T>(number: c_int, result: T) -> T {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = number };
    result
}

/// `sigaction(2)`.
unsafe extern "C" fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
    context: usize,
    caller: usize,
) -> c_int {
    // SAFETY: the caller's promise: null, or an action.
    let new = unsafe { new.as_ref() }.map(Action::of);
    match guard(context).exchange(signal, new, caller) {
        Ok(before) => {
            // SAFETY: the caller's promise: null, or a place.
            if let Some(old) = unsafe { old.as_mut() } {
                *old = before.into_libc();
            }
            0
        }
        Err(number) => refused(number, -1),
    }
}

/// The body of the functions below that take a handler alone.
fn set(signal: c_int, handler: usize, flags: c_int, context: usize, caller: usize) -> usize {
    match guard(context).exchange(signal, Some(Action::new(handler, flags)), caller) {
        Ok(before) => before.handler,
        Err(number) => refused(number, libc::SIG_ERR),
    }
}

/// `signal(3)`, as BSD has it.
extern "C" fn signal(number: c_int, handler: usize, context: usize, caller: usize) -> usize {
    set(number, handler, libc::SA_RESTART, context, caller)
}

/// `signal(3)`, as System V has it.
extern "C" fn sysv_signal(number: c_int, handler: usize, context: usize, caller: usize) -> usize {
    set(number, handler, libc::SA_RESETHAND | libc::SA_NODEFER, context, caller)
}

/// `sigset(3)`: sets a handler and lets the signal come, or blocks it.
extern "C" fn sigset(number: c_int, handler: usize, context: usize, caller: usize) -> usize {
    let holds = handler == SIG_HOLD;
    let before = match holds {
        true => guard(context)
            .exchange(number, None, caller)
            .map_or_else(|error| refused(error, libc::SIG_ERR), |before| before.handler),
        false => set(number, handler, 0, context, caller),
    };
    if before == libc::SIG_ERR {
        return before;
    }
    note_mask();
    let how = if holds { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
    let (mut one, mut blocked) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: the sets are initialized before they are used.
    let was_blocked = unsafe {
        libc::sigemptyset(one.as_mut_ptr());
        libc::sigemptyset(blocked.as_mut_ptr());
        libc::sigaddset(one.as_mut_ptr(), number);
        libc::pthread_sigmask(how, one.as_ptr(), blocked.as_mut_ptr());
        libc::sigismember(blocked.as_ptr(), number) == 1
    };
    if was_blocked { SIG_HOLD } else { before }
}

/// `sigignore(3)`.
extern "C" fn sigignore(number: c_int, context: usize, caller: usize) -> c_int {
    if set(number, libc::SIG_IGN, 0, context, caller) == libc::SIG_ERR { -1 } else { 0 }
}

/// `siginterrupt(3)`: whether the signal interrupts system calls.
extern "C" fn siginterrupt(number: c_int, flag: c_int, context: usize, caller: usize) -> c_int {
    let guard = guard(context);
    let done = guard.exchange(number, None, caller).and_then(|mut action| {
        match flag {
            0 => action.flags |= libc::SA_RESTART,
            _ => action.flags &= !libc::SA_RESTART,
        }
        guard.exchange(number, Some(action), caller)
    });
    done.map_or_else(|error| refused(error, -1), |_| 0)
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
