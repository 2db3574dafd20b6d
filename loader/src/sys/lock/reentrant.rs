//! A lock that is held while foreign code runs.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{HELD, Mutex, Rank, fork, futex};

/// One thread at a time, which may come back. A thread that takes it holds no [`Mutex`].
///
/// Foreign code may wait for a thread that forks, so a fork does not wait for this lock. In the child it is
/// free if its holder is not there. The lock of glibc's own loader is free there too (glibc, posix/fork.c).
#[derive(Debug)]
pub(crate) struct Reentrant {
    holder: Mutex<Holder>,
    /// How often a thread released it while others waited.
    released: AtomicU32,
}

#[derive(Debug)]
struct Holder {
    /// The holder's number, or 0.
    thread: u64,
    depth: u32,
    is_awaited: bool,
}

impl Reentrant {
    pub(crate) const fn new() -> Reentrant {
        let nobody = Holder { thread: 0, depth: 0, is_awaited: false };
        Reentrant { holder: Mutex::new(Rank::Holder, nobody), released: AtomicU32::new(0) }
    }

    /// Waits until no other thread has it and takes it.
    pub(crate) fn lock(&self) -> Turn<'_> {
        debug_assert!(
            HELD.get() == 0,
            "foreign code is waited for under a lock: {:#b}",
            HELD.get()
        );
        loop {
            let released = self.released.load(Ordering::Relaxed);
            {
                let mut holder = self.holder.lock();
                let is_abandoned = fork::is_gone(holder.thread) && holder.thread != 0;
                if is_abandoned {
                    holder.depth = 0;
                }
                if holder.depth == 0 || holder.thread == fork::number() {
                    holder.thread = fork::number();
                    holder.depth += 1;
                    return Turn { of: self, is_abandoned, _of_this_thread: PhantomData };
                }
                holder.is_awaited = true;
            }
            futex::wait(&self.released, released);
        }
    }

    /// Takes it from whatever thread has it, which never releases it: a crash has discarded its frames. Those who wait go on
    /// when the caller releases it.
    pub(crate) fn take_over(&self) -> Turn<'_> {
        let mut holder = self.holder.lock();
        let is_abandoned = holder.depth > 0;
        (holder.thread, holder.depth) = (fork::number(), 1);
        Turn { of: self, is_abandoned, _of_this_thread: PhantomData }
    }
}

/// The right to a [`Reentrant`]. Dropping it releases the lock.
pub(crate) struct Turn<'a> {
    of: &'a Reentrant,
    /// Whether the previous owner did not release the lock: a fork left that thread in the parent process.
    pub is_abandoned: bool,
    _of_this_thread: PhantomData<*const ()>,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut holder = self.of.holder.lock();
        holder.depth -= 1;
        if holder.depth > 0 {
            return;
        }
        holder.thread = 0;
        let is_awaited = std::mem::take(&mut holder.is_awaited);
        if is_awaited {
            self.of.released.fetch_add(1, Ordering::Relaxed);
        }
        drop(holder);
        if is_awaited {
            futex::wake(&self.of.released, futex::ALL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_may_come_back_and_others_wait() {
        let lock = Reentrant::new();
        let total = Mutex::new(Rank::Images, 0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let _outer = lock.lock();
                        let inner = lock.lock();
                        assert!(!inner.is_abandoned);
                        let before = *total.lock();
                        std::thread::yield_now();
                        *total.lock() = before + 1;
                    }
                });
            }
        });
        assert_eq!(*total.lock(), 8000);
    }

    #[test]
    fn a_lock_whose_holder_is_gone_can_be_taken_over() {
        let lock = Reentrant::new();
        std::thread::scope(|scope| {
            scope.spawn(|| std::mem::forget([lock.lock(), lock.lock()])).join().unwrap();
            let waits = scope.spawn(|| drop(lock.lock()));
            let turn = lock.take_over();
            assert!(turn.is_abandoned && !waits.is_finished());
            drop(turn);
        });
        assert!(!lock.take_over().is_abandoned);
    }
}
