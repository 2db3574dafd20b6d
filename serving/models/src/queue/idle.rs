//! Threads that wait for work, the last first.
//!
//! Instances are alike, but what the last one has touched is still in the processor's caches. If few requests come, the
//! others' memory stays untouched, and the system may take it.

use parking_lot::{Condvar, MutexGuard};
use std::sync::Arc;
use std::time::Instant;

/// Threads that wait, in the order in which they began to.
#[derive(Default)]
pub(crate) struct Idle(Vec<Sleeper>);

/// A thread that waits.
#[must_use = "it goes on waiting"]
pub(crate) struct Sleeper(Arc<Condvar>);

impl Sleeper {
    /// Wakes it.
    pub(crate) fn wake(self) {
        self.0.notify_one();
    }
}

impl Idle {
    /// Waits until another thread takes this one out and wakes it, or until `until`. The mutex is unlocked meanwhile.
    pub(crate) fn wait<T>(
        guard: &mut MutexGuard<'_, T>,
        idle: impl Fn(&mut T) -> &mut Self,
        until: Option<Instant>,
    ) {
        let woken = Arc::new(Condvar::new());
        idle(guard).0.push(Sleeper(Arc::clone(&woken)));
        match until {
            None => woken.wait(guard),
            Some(until) => drop(woken.wait_until(guard, until)),
        }
        // The waking thread took it out; after a timeout it is still in.
        idle(guard).0.retain(|Sleeper(other)| !Arc::ptr_eq(other, &woken));
    }

    /// The one that began last. It is to be woken when the mutex is unlocked.
    pub(crate) fn last(&mut self) -> Option<Sleeper> {
        self.0.pop()
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// All of them.
    pub(crate) fn all(&mut self) -> Vec<Sleeper> {
        std::mem::take(&mut self.0)
    }
}
