//! Signals of a process that runs several python commands at once: each command sets actions as if it was alone.
//!
//! The process has one action for a signal. Here each command has a table of its own, which answers its calls of
//! `sigaction`. If a command has a handler for a signal, the process's handler is [`dispatch`]: it passes a signal for
//! the process on to the main thread of each command that handles it, so that a system call there is interrupted.
//! CPython's own handler then notes the signal (`trip_signal`, Modules/signalmodule.c). A signal for one thread
//! (`raise`, `pthread_kill`) is for the command of that thread.

use crate::thread::home::Home;
use hydrozoa_loader::{DomainId, Interposition, current, ignore_children, reap_ignored};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// Signals have the numbers from 1 to 64.
const COUNT: usize = 65;

/// Faults of the code that runs. A handler writes a report for the whole process, and the last one stays.
const FAULTS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGABRT];

/// Signals that change nothing by default: one that waits is dropped with its handler.
const PASSES: [c_int; 4] = [libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH, libc::SIGCONT];

/// What one command does on signals. It lives as long as the process.
#[derive(Debug)]
pub(crate) struct Signals {
    actions: [Action; COUNT],
    /// The kernel's number of its main thread while that can take signals, else 0.
    thread: AtomicI32,
    domain: OnceLock<DomainId>,
    process: Home,
    next: AtomicPtr<Signals>,
}

/// A handler, or SIG_DFL or SIG_IGN, and whether the command has set it.
#[derive(Debug, Default)]
struct Action {
    handler: AtomicUsize,
    flags: AtomicI32,
    is_set: AtomicBool,
}

/// The commands of the process, last one first. Handlers of signals read the list.
static COMMANDS: AtomicPtr<Signals> = AtomicPtr::new(ptr::null_mut());

/// Held while the actions of the process change. They were these before the first command.
static BEFORE: Mutex<Option<Box<[libc::sigaction; COUNT]>>> = Mutex::new(None);

/// The signals whose dispatcher has stayed although no command has an action for them.
static STAYS: [AtomicBool; COUNT] = [const { AtomicBool::new(false) }; COUNT];

/// Every command of the process.
fn commands() -> impl Iterator<Item = &'static Signals> {
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
        let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
        let before = before.get_or_insert_with(|| Box::new(std::array::from_fn(of_process)));
        let signals = Box::leak(Box::new(Self {
            actions: std::array::from_fn(|signal| Action {
                handler: AtomicUsize::new(before[signal].sa_sigaction),
                ..Action::default()
            }),
            thread: AtomicI32::new(0),
            domain: OnceLock::new(),
            process: Home::current(),
            next: AtomicPtr::new(COMMANDS.load(Ordering::Acquire)),
        }));
        // Under the lock: no other command gets in between.
        COMMANDS.store(signals, Ordering::Release);
        signals
    }

    /// What answers for libc in the command's domain.
    pub(crate) fn interpositions(&'static self) -> Vec<(&'static str, Interposition)> {
        let context = ptr::from_ref(self).expose_provenance();
        // SAFETY: sigaction(2) takes three words, signal(3) and kill(2) take two. The functions take these and the
        // address of `self`, which is never freed.
        let of = |function: *const c_void, arguments| unsafe {
            Interposition::with_context(function, arguments, context)
        };
        let simple = of(signal as *const c_void, 2);
        vec![
            ("sigaction", of(sigaction as *const c_void, 3)),
            ("signal", simple),
            ("bsd_signal", simple),
            ("kill", of(kill as *const c_void, 2)),
        ]
    }

    /// Notes that the calling thread is the command's main thread.
    pub(crate) fn begin(&self) {
        // SAFETY: takes nothing.
        self.thread.store(unsafe { libc::gettid() }, Ordering::Release);
    }

    /// Notes the command's domain.
    pub(crate) fn runs_in(&self, domain: DomainId) {
        let _ = self.domain.set(domain);
    }

    /// The command has ended: what it has set counts no more.
    pub(crate) fn end(&self) {
        self.thread.store(0, Ordering::Release);
        self.domain.get().into_iter().for_each(|domain| ignore_children(*domain, false));
        for signal in 1..COUNT {
            if self.actions[signal].is_set.swap(false, Ordering::AcqRel) {
                settle(signal);
            }
        }
    }

    /// Whether the command leaves a signal to its default action.
    pub(crate) fn is_default(&self, signal: c_int) -> bool {
        let action = self.actions.get(signal as usize);
        action.is_some_and(|action| action.handler.load(Ordering::Acquire) == libc::SIG_DFL)
    }

    /// Whether a signal for the process may be handled on the calling thread, whose number is `here`: it is the command's
    /// main thread and does not block the signal, which the command handles.
    fn takes(&self, signal: c_int, here: c_int) -> bool {
        let handles = |action: &Action| {
            action.is_set.load(Ordering::Acquire)
                && is_function(action.handler.load(Ordering::Acquire))
        };
        let is_main = self.thread.load(Ordering::Acquire) == here;
        if !is_main || !self.actions.get(signal as usize).is_some_and(handles) {
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
    fn is_in_child(&self) -> bool {
        !self.process.is_current()
    }

    /// Calls the command's handler, if it has one.
    unsafe fn handle(&self, signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
        let action = &self.actions[signal as usize];
        let handler = action.handler.load(Ordering::Acquire);
        if !is_function(handler) {
            return;
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
    }
}

fn is_function(handler: usize) -> bool {
    handler != libc::SIG_DFL && handler != libc::SIG_IGN
}

/// The action of the process. Zero for what is no signal.
fn of_process(signal: usize) -> libc::sigaction {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: writes one action, or leaves the zeroes, which are one too.
    unsafe {
        libc::sigaction(signal as c_int, ptr::null(), action.as_mut_ptr());
        action.assume_init()
    }
}

/// Sets the action of the process for what the commands have set: the dispatcher if one of them has a handler, else
/// that the signal is ignored if one ignores it, else what was before them. A dispatcher stays if that was the default
/// action: the command that has taken its handler back may have a signal yet that was passed on to it, which would end
/// the process.
fn settle(signal: usize) {
    let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
    let before = before.get_or_insert_with(|| Box::new(std::array::from_fn(of_process)));
    let set = |wanted: fn(usize) -> bool| {
        commands().any(|command| {
            let action = &command.actions[signal];
            action.is_set.load(Ordering::Acquire) && wanted(action.handler.load(Ordering::Acquire))
        })
    };
    let mut action = before[signal];
    if set(is_function) {
        action.sa_sigaction = dispatcher();
        // CPython's too are on the thread's own stack for signals, and restart no call (PyOS_setsig).
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    } else if signal == libc::SIGCHLD as usize && set(|handler| handler == libc::SIG_IGN) {
        // The kernel would let every child of the process go, and the other commands wait for theirs.
        action.sa_sigaction = dispatcher();
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    } else if set(|handler| handler == libc::SIG_IGN) {
        (action.sa_sigaction, action.sa_flags) = (libc::SIG_IGN, 0);
    } else if action.sa_sigaction == libc::SIG_DFL
        && !PASSES.contains(&(signal as c_int))
        && of_process(signal).sa_sigaction == dispatcher()
    {
        STAYS[signal].store(true, Ordering::Release);
        return;
    }
    STAYS[signal].store(false, Ordering::Release);
    // SAFETY: the action is a function for this, or one of the process's own.
    unsafe { libc::sigaction(signal as c_int, &action, ptr::null_mut()) };
}

fn dispatcher() -> usize {
    dispatch as *const () as usize
}

/// The process's handler of what some command handles.
unsafe extern "C" fn dispatch(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the description of the signal. Errno belongs to the code that is interrupted.
    unsafe {
        let errno = *libc::__errno_location();
        if signal == libc::SIGCHLD {
            reap_ignored();
        }
        let is_passed_on = is_passed_on(&*info);
        let for_thread = is_passed_on || (*info).si_code == libc::SI_TKILL;
        let own = current::domain();
        let here = libc::gettid();
        // Of the kernel's own, about a child: each command has its children.
        let child = (signal == libc::SIGCHLD && (*info).si_code > 0).then(|| (*info).si_pid());
        let concerns = |command: &&Signals| match (child, command.domain.get()) {
            (Some(child), Some(domain)) => hydrozoa_loader::concerns(child, *domain),
            _ => true,
        };
        for command in commands().filter(concerns) {
            let thread = command.thread.load(Ordering::Acquire);
            let is_own = own.is_some() && command.domain.get().copied() == own;
            if thread == here || is_own && (for_thread || command.is_in_child()) {
                command.handle(signal, info, context);
            } else if !for_thread && !command.is_in_child() && thread != 0 {
                let handler = command.actions[signal as usize].handler.load(Ordering::Acquire);
                if is_function(handler) {
                    pass_on(&*info, thread);
                }
            }
        }
        if !is_passed_on && STAYS[signal as usize].load(Ordering::Acquire) {
            act_by_default(signal);
        }
        *libc::__errno_location() = errno;
    }
}

/// What marks a signal that one command's thread has passed on to another's.
static MARK: u8 = 0;

fn is_passed_on(info: &libc::siginfo_t) -> bool {
    // SAFETY: signals of this code have a value (sigqueue(3)).
    info.si_code == libc::SI_QUEUE && unsafe { info.si_value() }.sival_ptr == mark()
}

fn mark() -> *mut c_void {
    ptr::from_ref(&MARK).cast_mut().cast()
}

/// Sends a signal that the process has got to a thread of it, marked, and with its sender. If the thread has ended, there is
/// nothing to do.
fn pass_on(info: &libc::siginfo_t, thread: c_int) {
    // SAFETY: the kernel wrote the sender, or zeroes.
    let (process, user) = unsafe { (info.si_pid(), info.si_uid()) };
    let sent = Sent { signal: info.si_signo, code: libc::SI_QUEUE, process, user, value: mark() };
    let _ = sent.to(thread);
}

/// What comes with a signal for a thread of this process.
struct Sent {
    signal: c_int,
    code: c_int,
    process: libc::pid_t,
    user: libc::uid_t,
    value: *mut c_void,
}

impl Sent {
    /// Sends it. Without an answer from the kernel of its success, the thread has ended.
    fn to(&self, thread: c_int) -> bool {
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
        // SAFETY: the kernel reads one description.
        unsafe {
            let own = libc::getpid();
            libc::syscall(libc::SYS_rt_tgsigqueueinfo, own, thread, signal, &raw const queued) == 0
        }
    }
}

/// Does with the process what the signal does by default: its action is that one, and the signal comes again when its
/// handler returns.
///
/// # Safety
///
/// Called by the signal's handler.
unsafe fn act_by_default(signal: c_int) {
    // SAFETY: zero is the default action, with no flags. The calls are the kernel's.
    unsafe {
        let action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, &action, ptr::null_mut());
        libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::gettid(), signal);
    }
}

/// `sigaction(2)`.
unsafe extern "C" fn sigaction(
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
        let Some(own) = own else { return libc::sigaction(signal, new, old) };
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
unsafe extern "C" fn signal(number: c_int, handler: usize, signals: usize) -> usize {
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

/// `kill(2)`. A process of one thread that signals itself has handled the signal when the call returns (POSIX). So has
/// a command here: its main thread sends the signal to itself, and dispatches it. By the kernel it would go to the
/// process's main thread, and might come after the command has taken its handler back.
unsafe extern "C" fn kill(process: libc::pid_t, number: c_int, signals: usize) -> c_int {
    // SAFETY: the context is the address of a value that is never freed. The calls take numbers.
    unsafe {
        let signals = &*ptr::with_exposed_provenance::<Signals>(signals);
        let (own, here) = (libc::getpid(), libc::gettid());
        if process == own && !signals.is_in_child() && signals.takes(number, here) {
            let (code, user) = (libc::SI_USER, libc::getuid());
            let sent = Sent { signal: number, code, process: own, user, value: ptr::null_mut() };
            if sent.to(here) {
                return 0;
            }
        }
        libc::kill(process, number)
    }
}
