//! Forks and the gate before all locks, and the numbers of threads.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Once, gate, library_work, object_list};
use crate::sys::process::Process;
use crate::sys::thread;

thread_local! {
    /// How many before-fork handlers have run on this thread without their after-fork counterparts.
    /// While it is not zero, the thread does not pass the gate: it has the gate to itself.
    static FORKING: Cell<u32> = const { Cell::new(0) };
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// Passes the gate, unless the thread has it to itself; waits while another thread forks.
#[inline]
pub(super) fn enter() {
    if FORKING.get() == 0 {
        gate::enter();
    }
}

#[inline]
pub(super) fn leave() {
    if FORKING.get() == 0 {
        gate::leave();
    }
}

/// How long a fork waits for the [`library_work`] work of other threads. They may wait for the thread that forks.
const PATIENCE: Duration = Duration::from_secs(1);

/// Registers the fork handlers. A process does it when it makes its first loader.
///
/// Handlers that are registered later run outside of ours: earlier before the fork, and later after it
/// (pthread_atfork(3)). The gate is open for them. Handlers that were registered earlier run inside of ours.
/// For them the forking thread has the gate to itself.
pub(crate) fn prepare() {
    extern "C" fn before() {
        if FORKING.get() == 0 {
            number();
            let limit = Instant::now() + PATIENCE;
            gate::close();
            while library_work::by_others() > 0 && Instant::now() < limit {
                gate::open();
                library_work::wait_for_others(limit.saturating_duration_since(Instant::now()));
                gate::close();
            }
        }
        FORKING.set(FORKING.get() + 1);
    }
    extern "C" fn in_parent() {
        FORKING.set(FORKING.get() - 1);
        if FORKING.get() == 0 {
            gate::open();
        }
    }
    extern "C" fn in_child() {
        FORKING.set(FORKING.get() - 1);
        if FORKING.get() == 0 {
            object_list::reset();
            library_work::forget_others();
            SURVIVOR.store(number(), Ordering::Relaxed);
            FIRST.store(NEXT.load(Ordering::Relaxed), Ordering::Relaxed);
            gate::open_in_child();
        }
    }
    object_list::prepare();
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
