//! The way out for threads that are inside of an interpreter which has crashed.
//!
//! One thread of the runtime signals each of them again and again, until none is left. The signal's handler judges where it has
//! interrupted its thread, as the handler of crashes does. In most moments a thread is in code of the interpreter, or waits
//! for its GIL or for a lock of Python's, and leaves at once. In others, as in malloc, it goes on until the next signal. That
//! comes after a pause, which grows: a judgement takes some 100 µs of the thread's time, and much more where the machine is busy.
//! A thread that was asked all the time would never come to give up the lock that it holds.
//! A host function that returns to such an interpreter leaves by itself ([`depart`]).

use super::contained::{self, Contained, GuardEntry};
use super::inside;
use super::judge::{self, Verdict, judge};
use super::landing::call_guarded;
use crate::crash::handler::{self, Crash};
use crate::thread::Thread;
use crate::{Error, Result};
use hydrozoa_loader::{DomainId, LeafLock, Run, around_threads, order_accesses, thread_number};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The signal; 0 before it is chosen.
static SIGNAL: AtomicI32 = AtomicI32::new(0);

/// Counts crashes. The thread that sends others home waits for it to change.
static CRASHES: AtomicU32 = AtomicU32::new(0);

/// Between the judgement of a thread and the next signal for it: the first pause, and the longest; and between two looks, while
/// somebody may come back into a crashed interpreter.
const PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);
const LOOK: Duration = Duration::from_millis(20);

/// Prepares the process, once: the list of functions, the signal, the thread.
///
/// # Errors
///
/// [`Error::Configuration`] if no signal is free, or the kernel refuses the thread.
pub(crate) fn prepare() -> Result<()> {
    static DONE: LeafLock<bool> = LeafLock::new(false);
    if DONE.with(|done| std::mem::replace(done, true)) {
        return Ok(());
    }
    let prepared = set_up();
    if prepared.is_err() {
        DONE.with(|done| *done = false);
    }
    prepared
}

fn set_up() -> Result<()> {
    judge::prepare();
    let is_free = |signal: &c_int| handler::current(*signal).sa_sigaction == libc::SIG_DFL;
    let signal = (libc::SIGRTMIN()..=libc::SIGRTMAX()).rev().find(is_free).ok_or_else(|| {
        Error::Configuration(
            "crashes cannot be contained, since the program handles all real-time signals: leave it one".to_owned(),
        )
    })?;
    handler::install_for(signal, come_home);
    SIGNAL.store(signal, Ordering::Release);
    around_threads(around);
    Thread::helper("crashes", usher)
        .map_err(|error| Error::no_thread("the pool", &error))?
        .detach();
    Ok(())
}

/// Has the threads of crashed interpreters sent home.
pub(super) fn send() {
    CRASHES.fetch_add(1, Ordering::SeqCst);
    // SAFETY: wakes those who wait for the word.
    unsafe {
        let wake = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
        libc::syscall(libc::SYS_futex, CRASHES.as_ptr(), wake, 1);
    }
}

fn usher() {
    let mut known = BTreeSet::new();
    let mut turns = BTreeMap::new();
    loop {
        let seen = CRASHES.load(Ordering::SeqCst);
        let mut crashed = contained::all();
        crashed.retain(|one| one.has_crashed());
        known.retain(|domain| crashed.iter().any(|one| one.domain().index() == *domain));
        if !crashed.is_empty() {
            // A thread that enters now sees the crash, or is seen.
            order_accesses();
        }
        let mut is_anybody_inside = false;
        for one in &crashed {
            if known.insert(one.domain().index()) {
                begin(one);
            }
            is_anybody_inside |= signal_those_in(one, &mut turns);
        }
        if !is_anybody_inside {
            turns.clear();
        }
        match crashed.is_empty() {
            true => wait(seen, None),
            false => wait(seen, Some(if is_anybody_inside { PAUSE } else { LOOK })),
        }
    }
}

/// Calls what follows a crash, on a thread of its own.
fn begin(contained: &Arc<Contained>) {
    let crashed = contained.clone();
    match Thread::start("crashed", move || crashed.call_after()) {
        Ok(thread) => thread.detach(),
        Err(error) => tracing::error!(%error, "no thread for the work after a crash"),
    }
}

/// When a thread is signalled next.
#[derive(Default)]
struct Turn {
    /// None before its last signal was answered.
    due: Option<Instant>,
    pause: Duration,
}

/// Signals the threads that are in an interpreter, those whose turn it is. Returns whether there are any.
fn signal_those_in(contained: &Arc<Contained>, turns: &mut BTreeMap<libc::pid_t, Turn>) -> bool {
    let (mut is_anybody_inside, now) = (false, Instant::now());
    for one in inside::all() {
        let Some(thread) = one.thread_in(Arc::as_ptr(contained)) else { continue };
        is_anybody_inside = true;
        let turn = turns.entry(thread).or_default();
        if one.is_asked() {
            turn.due = None;
            continue;
        }
        if now < *turn.due.get_or_insert(now + turn.pause) {
            continue;
        }
        *turn = Turn { due: None, pause: (2 * turn.pause).clamp(PAUSE, LONGEST_PAUSE) };
        one.set_asked(true);
        let signal = SIGNAL.load(Ordering::Acquire);
        // SAFETY: a thread of this process, or one that has just ended.
        if unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) } != 0 {
            one.set_asked(false);
        }
    }
    is_anybody_inside
}

/// Waits until there are other crashes than `seen`, at most for `limit`.
fn wait(seen: u32, limit: Option<Duration>) {
    let limit = limit.map(|limit| libc::timespec { tv_sec: 0, tv_nsec: limit.as_nanos() as _ });
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: the word is valid, and the limit a time or null.
    unsafe {
        let wait = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
        libc::syscall(libc::SYS_futex, CRASHES.as_ptr(), wait, seen, limit);
    }
}

impl Contained {
    /// Whether no thread is in a call of the interpreter.
    pub(crate) fn is_empty(&self) -> bool {
        order_accesses();
        inside::all().all(|one| one.thread_in(self).is_none())
    }
}

/// The signal's handler: takes its thread out of the interpreter if that may be now.
unsafe extern "C" fn come_home(_signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes the description of the signal and the context, which live until the return. Errno belongs to
    // the code that is interrupted.
    unsafe {
        let errno = *libc::__errno_location();
        let crash = Crash::new(info, context, thread_number());
        let own = inside::of_thread(crash.thread);
        let call = own.and_then(inside::Inside::innermost);
        if call.is_some_and(|call| (*call.contained).has_crashed())
            && handler::on_its_stack_if_free(&crash, decide)
            && let Some(landing) = crash.landing.get()
        {
            landing.land(context);
        }
        if let Some(own) = own {
            own.set_asked(false);
        }
        *libc::__errno_location() = errno;
    }
}

unsafe extern "C" fn decide(crash: usize) {
    // SAFETY: what `come_home` has passed, in the handler.
    unsafe {
        let crash = &*ptr::with_exposed_provenance::<Crash>(crash);
        if let Verdict::Contained(landing) = judge(crash) {
            crash.landing.set(Some(landing));
        }
    }
}

/// The last act of a function of the host that code of an interpreter has called, when it holds nothing any more: if the
/// interpreter has crashed meanwhile, the thread leaves it and does not return. Elsewhere it does nothing.
#[inline]
pub(crate) fn depart() {
    let Some(call) = inside::innermost() else { return };
    // SAFETY: the thread is in a call of the interpreter.
    if unsafe { &*call.contained }.has_crashed() {
        leave(&call);
    }
}

#[cold]
fn leave(call: &inside::Innermost) {
    if call.is_whole() {
        // SAFETY: the frame is whole. Between it and here are frames of the interpreter's code, and of the function that has
        // promised to hold nothing.
        unsafe { call.land_now() }
    }
    // The stack is damaged beyond the call.
    std::process::abort();
}

/// Calls the start routine of a thread that code of `domain` has created, in the guard of its interpreter.
fn around(domain: DomainId, run: Run, start: usize, argument: usize) -> usize {
    match contained::find(domain) {
        Some(contained) => {
            let entry = GuardEntry::new(run as *const () as usize, 0, &contained);
            // SAFETY: the loader's promise. The entry, and the interpreter's record, live as long as the call.
            unsafe { call_guarded(start, argument, &entry) }
        }
        // SAFETY: as above.
        None => unsafe { run(start, argument) },
    }
}
