//! A call on its way from its caller to a worker, and its result on the way back.
//!
//! Its stage is one atomic number: to cancel, begin or end it, or to claim its result, a thread moves it from one stage to the
//! next. If several try at once, one succeeds.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{hint, thread};

/// Looks before the thread yields the processor and checks the clock.
const LOOKS: usize = 32;

/// How far a call has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stage {
    Queued,
    Running,
    Ended,
    /// A caller has the result.
    Claimed,
    Cancelled,
}

impl Stage {
    const ALL: [Self; 5] =
        [Self::Queued, Self::Running, Self::Ended, Self::Claimed, Self::Cancelled];

    fn of(bits: u8) -> Self {
        Self::ALL[usize::from(bits & !AWAITED)]
    }

    fn has_ended(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }
}

/// Beside the stage: somebody looks for the result.
const AWAITED: u8 = 1 << 7;

/// A call `C` with a result `R`.
pub(crate) struct Job<C, R> {
    /// The caller's name for it.
    pub(crate) tag: u64,
    /// A [`Stage`], and [`AWAITED`].
    stage: AtomicU8,
    call: Mutex<Option<C>>,
    result: OnceLock<R>,
}

impl<C, R> Job<C, R> {
    pub(crate) fn new(tag: u64, call: C) -> Self {
        let stage = AtomicU8::new(Stage::Queued as u8);
        Self { tag, stage, call: Mutex::new(Some(call)), result: OnceLock::new() }
    }

    pub(crate) fn stage(&self) -> Stage {
        Stage::of(self.stage.load(Ordering::Acquire))
    }

    /// The result, from its end on.
    pub(crate) fn result(&self) -> Option<&R> {
        self.result.get()
    }

    /// Goes from one stage to another. The bits before, if it was in the first one.
    fn step(&self, from: Stage, to: Stage) -> Option<u8> {
        let next = |bits| (Stage::of(bits) == from).then_some(to as u8 | (bits & AWAITED));
        self.stage.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).ok()
    }

    /// Whether it never runs: it has not begun, or was cancelled before.
    pub(crate) fn cancel(&self) -> bool {
        if self.step(Stage::Queued, Stage::Cancelled).is_some() {
            // Its drop gives memory back by a function of the caller's, which may use this job.
            let call = lock(&self.call).take();
            drop(call);
        }
        self.stage() == Stage::Cancelled
    }

    /// The call, for the worker that runs it, unless it was cancelled.
    pub(crate) fn begin(&self) -> Option<C> {
        self.step(Stage::Queued, Stage::Running)?;
        lock(&self.call).take()
    }

    /// Stores the result. True if nobody looks for it, so that the collector must be told.
    pub(crate) fn end(&self, result: R) -> bool {
        let is_first = self.result.set(result).is_ok();
        debug_assert!(is_first, "a call has one result");
        let before = self.step(Stage::Running, Stage::Ended);
        before.is_some_and(|bits| bits & AWAITED == 0)
    }

    /// Gives a result back that was claimed. True if it was.
    pub(crate) fn unclaim(&self) -> bool {
        self.step(Stage::Claimed, Stage::Ended).is_some()
    }

    /// Looks for the result, at most for so long. True if it is there, and the caller's: nobody else gets true.
    pub(crate) fn wait(&self, most: Duration) -> bool {
        if !most.is_zero() && !self.stage().has_ended() {
            self.stage.fetch_or(AWAITED, Ordering::AcqRel);
            look_for(most, || self.stage().has_ended());
            // If it ends after this, the collector is told.
            self.stage.fetch_and(!AWAITED, Ordering::AcqRel);
        }
        self.step(Stage::Ended, Stage::Claimed).is_some()
    }
}

/// Looks until something is there, or the time is over. It yields, since the thread that makes it may wait for this processor.
pub(crate) fn look_for(most: Duration, is_there: impl Fn() -> bool) {
    let begin = Instant::now();
    while begin.elapsed() < most {
        for _ in 0..LOOKS {
            if is_there() {
                return;
            }
            hint::spin_loop();
        }
        thread::yield_now();
    }
}

/// No foreign code runs under these locks.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{Job, Stage};
    use std::sync::{Arc, Weak};

    /// A call that uses its job as it is dropped, as a function that memory is given back by may.
    struct Curious(Weak<Job<Self, ()>>);

    impl Drop for Curious {
        fn drop(&mut self) {
            if let Some(job) = self.0.upgrade() {
                assert!(job.cancel() && job.begin().is_none());
                assert_eq!(job.stage(), Stage::Cancelled);
                drop(super::lock(&job.call));
            }
        }
    }

    #[test]
    fn a_call_that_is_cancelled_is_dropped_while_nothing_of_it_is_locked() {
        let job = Arc::new_cyclic(|job| Job::new(0, Curious(job.clone())));
        assert!(job.cancel());
    }
}
