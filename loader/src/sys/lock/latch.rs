//! A lock of one domain, for plain numbers.
//!
//! Threads of other domains never take it, so a fork does not wait for it, and it does not pass the gate, which all domains
//! share. In the child of a fork it is free if its holder is not there. Then a change may be half done: the guarded
//! data must be valid in any state that a change of it goes through.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::{fork, futex};

/// Set beside the holder's number: others wait.
const AWAITED: u64 = 1 << 63;

#[derive(Debug)]
pub(crate) struct Latch<T> {
    /// The holder's number, or 0.
    holder: AtomicU64,
    /// How often a thread released it while others waited.
    released: AtomicU32,
    value: UnsafeCell<T>,
}

// SAFETY: the lock hands the value to one thread at a time. That thread may also take it out.
unsafe impl<T: Send> Sync for Latch<T> {}

impl<T> Latch<T> {
    pub(crate) const fn new(value: T) -> Latch<T> {
        Latch {
            holder: AtomicU64::new(0),
            released: AtomicU32::new(0),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits until the lock is free and takes it.
    #[inline]
    pub(crate) fn lock(&self) -> Held<'_, T> {
        let own = fork::number();
        if self.replace(0, own).is_err() {
            self.wait(own);
        }
        Held { latch: self, _of_this_thread: PhantomData }
    }

    fn replace(&self, holder: u64, new: u64) -> Result<u64, u64> {
        self.holder.compare_exchange(holder, new, Ordering::Acquire, Ordering::Relaxed)
    }

    #[cold]
    fn wait(&self, own: u64) {
        loop {
            let released = self.released.load(Ordering::Acquire);
            let holder = self.holder.load(Ordering::Relaxed);
            if holder == 0 || fork::is_gone(holder & !AWAITED) {
                if self.replace(holder, own).is_ok() {
                    return;
                }
            } else if holder & AWAITED != 0 || self.replace(holder, holder | AWAITED).is_ok() {
                futex::wait(&self.released, released);
            }
        }
    }
}

/// The right to a [`Latch`]'s value. Dropping it frees the lock.
pub(crate) struct Held<'a, T> {
    latch: &'a Latch<T>,
    _of_this_thread: PhantomData<*const ()>,
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: nobody else has the lock.
        unsafe { &*self.latch.value.get() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: no other thread has the lock, and the borrow is as exclusive as that of the guard.
        unsafe { &mut *self.latch.value.get() }
    }
}

impl<T> Drop for Held<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if self.latch.holder.swap(0, Ordering::Release) & AWAITED != 0 {
            self.latch.released.fetch_add(1, Ordering::Release);
            futex::wake(&self.latch.released, futex::ALL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_it_one_at_a_time() {
        let latch = Latch::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let mut value = latch.lock();
                        let before = *value;
                        std::hint::spin_loop();
                        *value = before + 1;
                    }
                });
            }
        });
        assert_eq!(*latch.lock(), 80_000);
    }
}
