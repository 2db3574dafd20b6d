//! The gate before all locks, which a fork closes.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{HELD, Once, futex, list};
use crate::sys::thread;

/// How many threads are inside, and [`CLOSED`].
static GATE: AtomicU32 = AtomicU32::new(0);

/// A thread forks: nobody else comes in.
const CLOSED: u32 = 1 << 31;

thread_local! {
    /// How many of the handlers of a fork that this thread makes have run and not been answered by those
    /// for after it. The thread needs not pass the gate then: it has it to itself.
    static FORKING: Cell<u32> = const { Cell::new(0) };
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// Passes the gate; waits while another thread forks.
pub(super) fn enter() {
    if FORKING.get() > 0 {
        return;
    }
    let mut state = GATE.load(Ordering::Relaxed);
    loop {
        if state & CLOSED != 0 {
            futex::wait(&GATE, state);
            state = GATE.load(Ordering::Relaxed);
            continue;
        }
        match GATE.compare_exchange_weak(state, state + 1, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return,
            Err(other) => state = other,
        }
    }
}

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
    // A signal handler may fork that has interrupted this thread inside.
    let own = u32::from(HELD.get() != 0);
    loop {
        let state = GATE.load(Ordering::Acquire);
        if state & !CLOSED == own {
            break;
        }
        futex::wait(&GATE, state);
    }
}

/// Registers the handlers of forks. It is done when a process makes its first loader.
///
/// Handlers that are registered later run before ours, and after ours in the child (pthread_atfork(3)): the
/// gate is open for them. For those that were registered earlier the forking thread has the gate to itself.
pub(crate) fn prepare() {
    extern "C" fn before() {
        if FORKING.get() == 0 {
            number();
            close();
        }
        FORKING.set(FORKING.get() + 1);
    }
    extern "C" fn in_parent() {
        FORKING.set(FORKING.get() - 1);
        if FORKING.get() == 0 {
            GATE.fetch_and(!CLOSED, Ordering::Release);
            futex::wake(&GATE, futex::ALL);
        }
    }
    extern "C" fn in_child() {
        FORKING.set(FORKING.get() - 1);
        if FORKING.get() == 0 {
            list::reset();
            SURVIVOR.store(number(), Ordering::Relaxed);
            FIRST.store(NEXT.load(Ordering::Relaxed), Ordering::Relaxed);
            // Nobody waits here: those who did are no threads of this process.
            GATE.store(u32::from(HELD.get() != 0), Ordering::Release);
        }
    }
    list::prepare();
    // Two threads may register them at once. The handlers count.
    static REGISTERED: Once<()> = Once::new();
    let registered = REGISTERED.get_or_try_init(|| thread::at_fork(before, in_parent, in_child));
    if let Err(error) = registered {
        tracing::warn!(%error, "children of a fork may find the loader locked");
    }
}

/// The number that the next thread gets.
static NEXT: AtomicU64 = AtomicU64::new(1);
/// The first number that a thread of this process can have but the one that made it by a fork.
static FIRST: AtomicU64 = AtomicU64::new(1);
/// That one's number.
static SURVIVOR: AtomicU64 = AtomicU64::new(0);

/// The calling thread's number. No other thread has it, in this process or in what it is a child of.
pub(super) fn number() -> u64 {
    if NUMBER.get() == 0 {
        NUMBER.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    NUMBER.get()
}

/// Whether the thread with this number was one of a process that this one is a child of.
pub(super) fn is_gone(number: u64) -> bool {
    number < FIRST.load(Ordering::Relaxed) && number != SURVIVOR.load(Ordering::Relaxed)
}
