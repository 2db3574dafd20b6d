//! Forks, and heaps that a thread keeps still: a child would find such a heap still for ever. So a fork waits until none is, and
//! none becomes still while a thread forks. Arenas that threads use at the moment of a fork need no care ([`super::arena`]).

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// How many heaps are kept still, and [`FORKING`] for each fork.
static STATE: AtomicU32 = AtomicU32::new(0);
const FORKING: u32 = 1 << 16;

/// While it lives, no thread forks.
pub(super) struct NoFork(());

impl NoFork {
    pub(super) fn begin() -> Self {
        static REGISTERED: Once = Once::new();
        // SAFETY: the functions are the process's for good.
        REGISTERED.call_once(|| unsafe {
            libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork));
        });
        while !add(1, |state| state < FORKING) {
            thread::yield_now();
        }
        Self(())
    }
}

impl Drop for NoFork {
    fn drop(&mut self) {
        STATE.fetch_sub(1, Ordering::Release);
    }
}

extern "C" fn before_fork() {
    while !add(FORKING, |state| state.is_multiple_of(FORKING)) {
        thread::yield_now();
    }
}

extern "C" fn after_fork() {
    STATE.fetch_sub(FORKING, Ordering::Release);
}

/// Adds to the state if it is such a one.
fn add(more: u32, may: impl Fn(u32) -> bool) -> bool {
    let sum = |state| may(state).then_some(state + more);
    STATE.fetch_update(Ordering::AcqRel, Ordering::Relaxed, sum).is_ok()
}
