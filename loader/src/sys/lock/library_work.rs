//! Work of the C library under locks of its own.
//!
//! In the child of a fork nobody would ever release another thread's locks. A thread may take locks of this crate
//! while it works, and may wait for the thread that forks. So it does not stay inside the gate. A fork waits for
//! the work with the gate open, up to a limit.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use super::{futex, undisturbed};

/// How many threads do such work.
static WORKING: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// How many pieces of it the thread has begun and not ended.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// The calling thread begins such work, unless a thread forks: then it waits for the fork.
pub(crate) fn begin() {
    if DEPTH.get() == 0 {
        undisturbed(|| WORKING.fetch_add(1, Ordering::Relaxed));
    }
    DEPTH.set(DEPTH.get() + 1);
}

/// The calling thread has ended the work that it began last.
pub(crate) fn end() {
    let rest = DEPTH.get() - 1;
    DEPTH.set(rest);
    if rest == 0 {
        WORKING.fetch_sub(1, Ordering::Release);
        futex::wake(&WORKING, 1);
    }
}

/// How many threads other than the calling one do such work.
pub(super) fn by_others() -> u32 {
    WORKING.load(Ordering::Acquire) - own()
}

/// Waits until a thread has ended such work, no longer than `limit`. It may return spuriously.
pub(super) fn wait_for_others(limit: Duration) {
    let working = WORKING.load(Ordering::Relaxed);
    if working > own() {
        futex::wait_up_to(&WORKING, working, limit);
    }
}

/// In the child of a fork.
pub(super) fn forget_others() {
    WORKING.store(own(), Ordering::Relaxed);
}

fn own() -> u32 {
    u32::from(DEPTH.get() > 0)
}
