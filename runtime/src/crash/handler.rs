//! The process's handler of fatal signals.
//!
//! It takes the place of the default action, and of the handler that Rust's standard library installs for its message about
//! overflows of stacks. It reports a crash of an interpreter's code, and then hands the signal on as it came: it puts back what
//! was there before, and sends the signal to its own thread again, which gets it when the handler returns. So a core file has
//! the place of the crash, and the exit status its signal.
//!
//! Where the program has a handler of its own, before or later, that is used and this one is not there. Code of interpreters,
//! and those who ask for it, see the action that this handler stands for ([`shown`]).

use super::contain::{self, Landing, Verdict};
use super::{arch, report, signals::SIGNALS, threads};
use hydrozoa_loader::thread_number;
use hydrozoa_loader::{LeafLock, at_birth, walk::CodePlace};
use hydrozoa_payload::pages::page_size;
use std::cell::{Cell, UnsafeCell};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

/// asm/signal.h: the C library's own business.
const SA_RESTORER: c_int = 0x0400_0000;

/// Bytes of the stack on which reports are made: a walk takes some 60 KiB.
const STACK: usize = 512 << 10;

/// How long a thread waits for another one's report, which ends the process in most cases.
const PATIENCE: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(5);

/// An action that stood before, of one signal.
struct Before {
    is_set: AtomicBool,
    action: UnsafeCell<MaybeUninit<libc::sigaction>>,
}

// SAFETY: written before `is_set`, by the one thread that installs, and only read from then on.
unsafe impl Sync for Before {}

static BEFORE: [Before; 65] = [const {
    Before { is_set: AtomicBool::new(false), action: UnsafeCell::new(MaybeUninit::uninit()) }
}; 65];

/// The thread that makes a report; 0 for none.
static REPORTER: AtomicI32 = AtomicI32::new(0);

/// The thread that has made the last report; 0 for none.
static REPORTED: AtomicI32 = AtomicI32::new(0);

/// The end of the stack for reports.
static TOP: OnceLock<usize> = OnceLock::new();

/// Installs the handler, once for the process, where nothing else handles a signal. There is a loader by now.
pub(crate) fn install() {
    static DONE: LeafLock<bool> = LeafLock::new(false);
    DONE.with(|done| {
        if std::mem::replace(done, true) || !prepare() {
            return;
        }
        at_birth(threads::prepare_thread);
        let fault = [libc::SIGSEGV, libc::SIGBUS].map(current);
        for signal in SIGNALS {
            let action = current(signal);
            let is_free = action.sa_sigaction == libc::SIG_DFL
                || fault.iter().all(|one| is_the_standard_library_s(one, &action));
            if is_free {
                // SAFETY: nobody reads it before it is set, nor writes it afterwards.
                unsafe { (*BEFORE[signal as usize].action.get()).write(action) };
                BEFORE[signal as usize].is_set.store(true, Ordering::Release);
                set(signal, &own());
            }
        }
    });
}

fn prepare() -> bool {
    // SAFETY: maps new memory, and makes its first page a wall.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_STACK;
        let both = libc::PROT_READ | libc::PROT_WRITE;
        let memory = libc::mmap(ptr::null_mut(), STACK, both, flags, -1, 0);
        if memory == libc::MAP_FAILED {
            return false;
        }
        libc::mprotect(memory, page_size(), libc::PROT_NONE);
        TOP.set(memory.expose_provenance() + STACK).is_ok()
    }
}

fn own() -> libc::sigaction {
    // SAFETY: zero is a value of every field.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle as *const () as usize;
    // A fault of the report itself is to be seen.
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
    block_others(&mut action);
    action
}

/// No other signal is handled meanwhile. The handler goes to the stack for reports, so the kernel would take its thread's stack
/// for signals for free, and put the next signal's frame in the place of the one that the handler reads and changes.
fn block_others(action: &mut libc::sigaction) {
    // SAFETY: the set is valid, and so are the signals.
    unsafe {
        libc::sigfillset(&mut action.sa_mask);
        for signal in SIGNALS {
            libc::sigdelset(&mut action.sa_mask, signal);
        }
    }
}

pub(super) fn current(signal: c_int) -> libc::sigaction {
    // SAFETY: zero is a value of every field, and the signal has an action.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, ptr::null(), &mut action);
        action
    }
}

/// Whether this handler is the signal's.
pub(super) fn handles(signal: c_int) -> bool {
    current(signal).sa_sigaction == own().sa_sigaction
}

fn set(signal: c_int, action: &libc::sigaction) {
    // SAFETY: the action is one that the process has had, or the handler below.
    unsafe { libc::sigaction(signal, action, ptr::null_mut()) };
}

/// Whether `action` is that of Rust's standard library, as far as can be told: SIGSEGV and SIGBUS have one handler, with
/// these flags and an empty mask, and it is code of the executable, which has this crate too
/// (library/std/src/sys/pal/unix/stack_overflow.rs). The program's own handler of that form runs too, after the report.
fn is_the_standard_library_s(fault: &libc::sigaction, action: &libc::sigaction) -> bool {
    let is_in_the_program =
        |address: usize| CodePlace::of(address).is_some_and(|place| place.is_in_the_program());
    let flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: a set has at least a word, which has all signals of the kernel.
    let mask = unsafe { ptr::from_ref(&action.sa_mask).cast::<u64>().read() };
    action.sa_sigaction == fault.sa_sigaction
        && action.sa_flags & !SA_RESTORER == flags
        && mask == 0
        && is_in_the_program(action.sa_sigaction)
        && is_in_the_program(handle as *const () as usize)
}

/// The action that the handler of reports stands for, if `action` is that handler; else the action itself.
pub(crate) fn shown(signal: c_int, action: libc::sigaction) -> libc::sigaction {
    match before(signal).filter(|_| action.sa_sigaction == own().sa_sigaction) {
        Some(before) => *before,
        None => action,
    }
}

/// The action that the handler of reports has replaced.
fn before(signal: c_int) -> Option<&'static libc::sigaction> {
    let before = BEFORE.get(signal as usize)?;
    // SAFETY: written before `is_set`, and not changed any more.
    before
        .is_set
        .load(Ordering::Acquire)
        .then(|| unsafe { (*before.action.get()).assume_init_ref() })
}

/// `sigaction(2)` for code of an interpreter, which sees the action that the handler of reports stands for. If the code puts that
/// back, the handler of reports is there again.
///
/// # Safety
///
/// As sigaction(2).
pub(crate) unsafe fn sigaction(
    signal: c_int,
    new: *const libc::sigaction,
    old: *mut libc::sigaction,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        let stands_for = |new: &&libc::sigaction| {
            before(signal).is_some_and(|before| before.sa_sigaction == new.sa_sigaction)
        };
        let own = new.as_ref().filter(stands_for).map(|_| own());
        let status = libc::sigaction(signal, own.as_ref().map_or(new, ptr::from_ref), old);
        if status == 0
            && let Some(old) = old.as_mut()
        {
            *old = shown(signal, *old);
        }
        status
    }
}

/// Has a handler run for a signal that nothing handled so far.
pub(super) fn install_for(
    signal: c_int,
    handler: unsafe extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void),
) {
    // SAFETY: zero is a value of every field.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as *const () as usize;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
    block_others(&mut action);
    set(signal, &action);
}

/// The parts of a signal that the report needs.
pub(super) struct Crash {
    pub(super) info: *const libc::siginfo_t,
    pub(super) context: *const c_void,
    /// The kernel's number of the thread.
    pub(super) thread: libc::pid_t,
    /// Where the thread goes on, if the crash is contained.
    pub(super) landing: Cell<Option<Landing>>,
    /// Whether this thread has the stack for reports until it has taken the report.
    keeps: Cell<bool>,
}

impl Crash {
    pub(super) fn new(
        info: *const libc::siginfo_t,
        context: *const c_void,
        thread: libc::pid_t,
    ) -> Self {
        Self { info, context, thread, landing: Cell::new(None), keeps: Cell::new(false) }
    }
}

unsafe extern "C" fn handle(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the description of the signal and the context, which live until the return. Errno belongs to
    // the code that is interrupted.
    unsafe {
        let errno = *libc::__errno_location();
        let crash = Crash::new(info, context, thread_number());
        if begin(crash.thread) {
            call(&crash, make);
            if !crash.keeps.get() {
                REPORTER.store(0, Ordering::Release);
            }
        }
        match crash.landing.get() {
            Some(landing) => landing.land(context),
            None => hand_on(signal, info),
        }
        *libc::__errno_location() = errno;
    }
}

/// Calls `function` with the crash, on the stack for reports, which this thread has.
unsafe fn call(crash: &Crash, function: unsafe extern "C" fn(usize)) {
    let top = TOP.get().copied().unwrap_or_default();
    // SAFETY: one thread at a time has the stack.
    unsafe { arch::call_on(top, function, ptr::from_ref(crash).expose_provenance()) };
}

/// The same unless another thread has the stack, or this one has it already. Returns whether it was called.
///
/// # Safety
///
/// The crash is the calling thread's, which is in its handler. `function` expects its address.
pub(super) unsafe fn on_its_stack_if_free(
    crash: &Crash,
    function: unsafe extern "C" fn(usize),
) -> bool {
    let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
    if REPORTER.compare_exchange(0, crash.thread, success, failure).is_err() {
        return false;
    }
    // SAFETY: by contract.
    unsafe { call(crash, function) };
    REPORTER.store(0, Ordering::Release);
    true
}

/// The report of the calling thread's crash, if that was contained and nobody has taken it.
pub(super) fn take_report() -> Option<String> {
    let own = thread_number();
    if REPORTER.load(Ordering::Acquire) != own {
        return None;
    }
    // SAFETY: this thread made the report, and keeps others from the next.
    let text = unsafe { report::text() }.to_owned();
    REPORTER.store(0, Ordering::Release);
    Some(text)
}

/// Whether this thread may make a report now. If it is at it, it has crashed there.
fn begin(thread: libc::pid_t) -> bool {
    let mut waited = Duration::ZERO;
    loop {
        match REPORTER.compare_exchange(0, thread, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return true,
            Err(reporter) if reporter == thread => {
                report::cut_short();
                return false;
            }
            Err(_) if waited >= PATIENCE => return false,
            Err(_) => {
                let pause = libc::timespec { tv_sec: 0, tv_nsec: PAUSE.as_nanos() as _ };
                // SAFETY: the time is valid. The call is one of signal-safety(7).
                unsafe { libc::nanosleep(&pause, ptr::null_mut()) };
                waited += PAUSE;
            }
        }
    }
}

unsafe extern "C" fn make(crash: usize) {
    // SAFETY: what `handle` has passed. One thread at a time is here.
    unsafe {
        let crash = &*ptr::with_exposed_provenance::<Crash>(crash);
        let refused = match contain::judge(crash) {
            Verdict::Contained(landing) => {
                crash.landing.set(Some(landing));
                if landing.note() {
                    crash.keeps.set(true);
                    report::make(crash, report::End::Contained);
                }
                return;
            }
            Verdict::Refused(refused) => Some(refused),
            Verdict::Off => None,
        };
        // The standard library's handler ends the process by `abort` after an overflow, which is reported already.
        let is_over = REPORTED.load(Ordering::Relaxed) == crash.thread;
        if !(is_over && (*crash.info).si_signo == libc::SIGABRT)
            && report::make(crash, report::End::Process(refused))
        {
            REPORTED.store(crash.thread, Ordering::Relaxed);
        }
    }
}

/// Has the signal come again when the handler returns, for what was there before.
///
/// # Safety
///
/// `info` is the kernel's description of `signal`, whose handler calls.
unsafe fn hand_on(signal: c_int, info: *const libc::siginfo_t) {
    let Some(before) = before(signal) else { return };
    // SAFETY: the set is initialized; the kernel reads one description. The mask goes back with the handler's return.
    unsafe {
        let mut blocked: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut blocked);
        libc::sigaddset(&mut blocked, signal);
        libc::sigprocmask(libc::SIG_BLOCK, &blocked, ptr::null_mut());
        // A handler that somebody has set meanwhile stays.
        if current(signal).sa_sigaction == own().sa_sigaction {
            set(signal, before);
        }
        let (process, thread) = (libc::getpid(), thread_number());
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, thread, signal, info);
    }
}
