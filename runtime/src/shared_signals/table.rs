//! The table of each command: its actions on signals.

use super::process::{self, is_function};
use super::{answers, timers};
use crate::thread::process_identity::ProcessIdentity;
use hydrozoa_loader::{DomainId, Interposition, ignore_children, thread_number};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering};

/// Signals have the numbers from 1 to 64.
pub(super) const COUNT: usize = 65;

/// One command's actions on signals. It lives as long as the process.
#[derive(Debug)]
pub(crate) struct Signals {
    pub(super) actions: [Action; COUNT],
    /// The kernel's number of its main thread while that can take signals, else 0.
    pub(super) thread: AtomicI32,
    pub(super) domain: OnceLock<DomainId>,
    /// One more than the number of its timer of real time, or 0.
    pub(super) timer: AtomicUsize,
    process: ProcessIdentity,
    next: AtomicPtr<Signals>,
}

/// A handler, or SIG_DFL or SIG_IGN, and whether the command has set it.
#[derive(Debug, Default)]
pub(super) struct Action {
    pub(super) handler: AtomicUsize,
    pub(super) flags: AtomicI32,
    pub(super) is_set: AtomicBool,
}

/// The commands of the process, last one first. Handlers of signals read the list.
static COMMANDS: AtomicPtr<Signals> = AtomicPtr::new(ptr::null_mut());

/// Every command of the process.
pub(super) fn commands() -> impl Iterator<Item = &'static Signals> {
    let at = |pointer: *mut Signals| {
        // SAFETY: the list holds leaked values only.
        unsafe { pointer.as_ref() }
    };
    std::iter::successors(at(COMMANDS.load(Ordering::Acquire)), move |command| {
        at(command.next.load(Ordering::Acquire))
    })
}

impl Signals {
    /// Of a command that begins with the actions of the process.
    pub(crate) fn new() -> &'static Self {
        process::with_actions_before(|before| {
            let signals = Box::leak(Box::new(Self {
                actions: std::array::from_fn(|signal| Action {
                    handler: AtomicUsize::new(before[signal].sa_sigaction),
                    ..Action::default()
                }),
                thread: AtomicI32::new(0),
                domain: OnceLock::new(),
                timer: AtomicUsize::new(0),
                process: ProcessIdentity::current(),
                next: AtomicPtr::new(COMMANDS.load(Ordering::Acquire)),
            }));
            // Under the lock: no other command gets in between.
            COMMANDS.store(signals, Ordering::Release);
            &*signals
        })
    }

    /// The functions that answer for libc in the command's domain.
    pub(crate) fn interpositions(&'static self) -> Vec<(&'static str, Interposition)> {
        let context = self.address();
        // SAFETY: the functions take as many words as those of the C library, and then the address of `self`,
        // which is never freed.
        let of = |function: *const c_void, arguments| unsafe {
            Interposition::with_context(function, arguments, context)
        };
        let simple = of(answers::signal as *const c_void, 2);
        vec![
            ("sigaction", of(answers::sigaction as *const c_void, 3)),
            ("signal", simple),
            ("bsd_signal", simple),
            ("alarm", of(timers::alarm as *const c_void, 1)),
            ("setitimer", of(timers::setitimer as *const c_void, 3)),
            ("getitimer", of(timers::getitimer as *const c_void, 2)),
        ]
    }

    /// Notes that the calling thread is the command's main thread.
    pub(crate) fn begin(&self) {
        self.thread.store(thread_number(), Ordering::Release);
        self.make_timer();
    }

    /// Notes the command's domain.
    pub(crate) fn runs_in(&self, domain: DomainId) {
        let _ = self.domain.set(domain);
    }

    /// The command has ended: its actions no longer count.
    pub(crate) fn end(&self) {
        self.drop_timer();
        self.thread.store(0, Ordering::Release);
        self.domain.get().into_iter().for_each(|domain| ignore_children(*domain, false));
        for signal in 1..COUNT {
            if self.actions[signal].is_set.swap(false, Ordering::AcqRel) {
                process::settle(signal);
            }
        }
    }

    /// Whether the command leaves a signal to its default action.
    pub(crate) fn is_default(&self, signal: c_int) -> bool {
        let action = self.actions.get(signal as usize);
        action.is_some_and(|action| action.handler.load(Ordering::Acquire) == libc::SIG_DFL)
    }

    /// Whether the command has set a handler of a signal.
    pub(super) fn handles(&self, signal: c_int) -> bool {
        self.actions.get(signal as usize).is_some_and(|action| {
            action.is_set.load(Ordering::Acquire)
                && is_function(action.handler.load(Ordering::Acquire))
        })
    }

    /// Whether a signal for the process may be handled on the calling thread, whose number is `here`: it is the command's
    /// main thread and does not block the signal, which the command handles.
    pub(super) fn takes(&self, signal: c_int, here: c_int) -> bool {
        if self.thread.load(Ordering::Acquire) != here || !self.handles(signal) {
            return false;
        }
        let mut blocked = MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: asks for the thread's mask, which is written then.
        unsafe {
            libc::pthread_sigmask(libc::SIG_BLOCK, ptr::null(), blocked.as_mut_ptr()) == 0
                && libc::sigismember(blocked.as_ptr(), signal) == 0
        }
    }

    /// Whether this is a child that a command has forked. Its signals are its own, and its threads those of one
    /// command.
    pub(super) fn is_in_child(&self) -> bool {
        !self.process.is_current()
    }

    /// Calls the command's handler. False if it has none.
    ///
    /// # Safety
    ///
    /// Called by the process's handler of the signal, with what that has got.
    pub(super) unsafe fn handle(
        &self,
        signal: c_int,
        info: *mut libc::siginfo_t,
        context: *mut c_void,
    ) -> bool {
        let action = &self.actions[signal as usize];
        let handler = action.handler.load(Ordering::Acquire);
        if !is_function(handler) {
            return false;
        }
        type Plain = extern "C" fn(c_int);
        type Informed = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);
        // SAFETY: the command has set the function for this, with these flags (sigaction(2)).
        unsafe {
            if action.flags.load(Ordering::Acquire) & libc::SA_SIGINFO == 0 {
                std::mem::transmute::<usize, Plain>(handler)(signal);
            } else {
                std::mem::transmute::<usize, Informed>(handler)(signal, info, context);
            }
        }
        true
    }
}
