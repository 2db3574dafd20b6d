//! The gate before all locks, which a fork closes.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{HELD, Once, awaited, futex, list};
use crate::sys::process::Process;
use crate::sys::thread;

/// How many threads are inside, and [`CLOSED`].
static GATE: AtomicU32 = AtomicU32::new(0);

/// A thread forks: no other thread comes in.
const CLOSED: u32 = 1 << 31;

thread_local! {
    /// How many handlers for before a fork have run on this thread without their counterparts for after
    /// it. While there is one, the thread does not pass the gate: it has the gate to itself.
    static FORKING: Cell<u32> = const { Cell::new(0) };
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// Passes the gate; waits while another thread forks.
#[inline]
pub(super) fn enter() {
    if FORKING.get() > 0 {
        return;
    }
    let state = GATE.load(Ordering::Relaxed);
    if state & CLOSED != 0 || pass(state).is_err() {
        wait();
    }
}

#[inline]
fn pass(state: u32) -> Result<u32, u32> {
    GATE.compare_exchange_weak(state, state + 1, Ordering::Acquire, Ordering::Relaxed)
}

/// Passes the gate where another thread forks, or passes it too.
#[cold]
fn wait() {
    let mut state = GATE.load(Ordering::Relaxed);
    loop {
        if state & CLOSED != 0 {
            futex::wait(&GATE, state);
            state = GATE.load(Ordering::Relaxed);
            continue;
        }
        match pass(state) {
            Ok(_) => return,
            Err(other) => state = other,
        }
    }
}

#[inline]
pub(super) fn leave() {
    if FORKING.get() > 0 {
        return;
    }
    if GATE.fetch_sub(1, Ordering::Release) & CLOSED != 0 {
        futex::wake(&GATE, futex::ALL);
    }
}

/// Closes the gate and waits until nobody else is inside.
fn close() {
    loop {
        let state = GATE.load(Ordering::Relaxed);
        if state & CLOSED != 0 {
            futex::wait(&GATE, state);
        } else if GATE
            .compare_exchange(state, state | CLOSED, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
        {
            break;
        }
    }
    // A signal handler that forks may have interrupted this thread inside.
    let own = u32::from(HELD.get() != 0);
    loop {
        let state = GATE.load(Ordering::Acquire);
        if state & !CLOSED == own {
            break;
        }
        futex::wait(&GATE, state);
    }
}

fn open() {
    GATE.fetch_and(!CLOSED, Ordering::Release);
    futex::wake(&GATE, futex::ALL);
}

/// How long a fork waits for the [`awaited`] work of other threads. They may wait for the thread that forks.
const PATIENCE: Duration = Duration::from_secs(1);

/// Registers the handlers of forks. A process does it when it makes its first loader.
///
/// Handlers that are registered later run outside of ours: earlier before the fork, and later after it
/// (pthread_atfork(3)). The gate is open for them. Handlers that were registered earlier run inside of ours.
/// For them the forking thread has the gate to itself.
pub(crate) fn prepare() {
    extern "C" fn before() {
        if FORKING.get() == 0 {
            number();
            let limit = Instant::now() + PATIENCE;
            close();
            while awaited::by_others() > 0 && Instant::now() < limit {
                open();
                awaited::wait_for_others(limit.saturating_duration_since(Instant::now()));
                close();
            }
        }
        FORKING.set(FORKING.get() + 1);
    }
    extern "C" fn in_parent() {
        FORKING.set(FORKING.get() - 1);
        if FORKING.get() == 0 {
            open();
        }
    }
    extern "C" fn in_child() {
        FORKING.set(FORKING.get() - 1);
        if FORKING.get() == 0 {
            list::reset();
            awaited::forget_others();
            SURVIVOR.store(number(), Ordering::Relaxed);
            FIRST.store(NEXT.load(Ordering::Relaxed), Ordering::Relaxed);
            // No thread waits at the gate: the threads that did are not in this process.
            GATE.store(u32::from(HELD.get() != 0), Ordering::Release);
        }
    }
    list::prepare();
    // A later caller may be unable to get a page.
    Process::current();
    // Two threads may register them at once. The handlers count their calls.
    static REGISTERED: Once<()> = Once::new();
    let registered = REGISTERED.get_or_try_init(|| thread::at_fork(before, in_parent, in_child));
    if let Err(error) = registered {
        tracing::warn!(%error, "children of a fork may find the loader locked");
    }
}

/// The number that the next thread gets.
static NEXT: AtomicU64 = AtomicU64::new(1);
/// Every thread of this process has at least this number, except the one that came out of the fork.
static FIRST: AtomicU64 = AtomicU64::new(1);
/// The number of the thread that came out of the fork.
static SURVIVOR: AtomicU64 = AtomicU64::new(0);

/// The calling thread's number. No other thread has it, in this process or in those that it descends from.
pub(crate) fn number() -> u64 {
    if NUMBER.get() == 0 {
        NUMBER.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.get()
}

/// Whether the thread with this number stayed in a process that this one descends from.
pub(super) fn is_gone(number: u64) -> bool {
    number < FIRST.load(Ordering::Relaxed) && number != SURVIVOR.load(Ordering::Relaxed)
}
