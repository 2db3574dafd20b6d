//! Values that are made once for each key, and live while somebody uses them.

use crate::wait_circles;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, ThreadId};

/// Values by key.
///
/// If several threads ask for the same value at once, one makes it. The others wait, and get the value
/// or the maker's error. The table keeps nothing alive: after the last user is gone, the next one makes
/// the value again.
///
/// No lock is held while a value is made, waited for or dropped.
pub(crate) struct Uploads<K, T, E> {
    entries: Mutex<HashMap<K, Upload<T, E>>>,
}

enum Upload<T, E> {
    Making(Arc<Attempt<T, E>>),
    Made(Weak<T>),
}

/// One attempt to make a value, running or finished.
pub(crate) struct Attempt<T, E> {
    thread: ThreadId,
    outcome: Mutex<Option<Result<Arc<T>, Failure<E>>>>,
    settled: Condvar,
}

/// Why an attempt has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure<E> {
    /// The error that its maker got.
    Error(E),
    /// A panic ended it.
    Abandoned,
    /// It needs itself to be made, on this thread or by way of another one.
    Recursive,
}

impl<K: Clone + Eq + Hash, T, E: Clone> Uploads<K, T, E> {
    /// The value for `key` if there is a usable one, else the value that `make` returns. If another thread is making it,
    /// `wait` is called to wait for that attempt. `wait` releases locks that the other thread may need.
    pub(crate) fn get(
        &self,
        key: &K,
        usable: impl FnOnce(&T) -> bool,
        wait: impl FnOnce(&Attempt<T, E>) -> Result<Arc<T>, Failure<E>>,
        make: impl FnOnce() -> Result<Arc<T>, E>,
    ) -> Result<Arc<T>, Failure<E>> {
        // A value that is found and not usable is dropped without the lock.
        let _stale;
        let attempt = {
            let mut entries = self.entries();
            match entries.get(key) {
                Some(Upload::Making(attempt)) => {
                    let attempt = Arc::clone(attempt);
                    // Under the lock: the thread is making it still.
                    let _waiting = wait_circles::wait_for(attempt.thread, attempt.thing())
                        .ok_or(Failure::Recursive)?;
                    drop(entries);
                    return wait(&attempt);
                }
                Some(Upload::Made(made)) => {
                    let made = made.upgrade();
                    if let Some(made) = made.as_ref().filter(|made| usable(made)) {
                        return Ok(Arc::clone(made));
                    }
                    _stale = made;
                }
                None => {}
            }
            // Entries of values that nobody uses any more would stay for ever.
            entries.retain(
                |_, entry| !matches!(entry, Upload::Made(made) if made.strong_count() == 0),
            );
            let attempt = Arc::new(Attempt {
                thread: thread::current().id(),
                outcome: Mutex::default(),
                settled: Condvar::new(),
            });
            entries.insert(key.clone(), Upload::Making(Arc::clone(&attempt)));
            attempt
        };
        // From here on the entry is settled in any case, also after a panic.
        let turn = Turn { uploads: self, key, attempt: &attempt };
        let outcome = make().map_err(Failure::Error);
        turn.settle(outcome.clone());
        std::mem::forget(turn);
        outcome
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<K, Upload<T, E>>> {
        // A panic happened between two changes, and each change is one call.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The attempt that this thread makes.
struct Turn<'a, K: Clone + Eq + Hash, T, E: Clone> {
    uploads: &'a Uploads<K, T, E>,
    key: &'a K,
    attempt: &'a Attempt<T, E>,
}

impl<K: Clone + Eq + Hash, T, E: Clone> Turn<'_, K, T, E> {
    fn settle(&self, outcome: Result<Arc<T>, Failure<E>>) {
        let mut entries = self.uploads.entries();
        match &outcome {
            Ok(made) => entries.insert(self.key.clone(), Upload::Made(Arc::downgrade(made))),
            // The next request tries again.
            Err(_) => entries.remove(self.key),
        };
        drop(entries);
        wait_circles::made(self.attempt.thing());
        *self.attempt.outcome() = Some(outcome);
        self.attempt.settled.notify_all();
    }
}

impl<K: Clone + Eq + Hash, T, E: Clone> Drop for Turn<'_, K, T, E> {
    fn drop(&mut self) {
        self.settle(Err(Failure::Abandoned));
    }
}

impl<T, E> Attempt<T, E> {
    fn thing(&self) -> wait_circles::Thing {
        (std::ptr::from_ref(self).addr(), 0)
    }
}

impl<T, E: Clone> Attempt<T, E> {
    /// Waits until the attempt has finished.
    pub(crate) fn wait(&self) -> Result<Arc<T>, Failure<E>> {
        self.settled
            .wait_while(self.outcome(), |outcome| outcome.is_none())
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
            .unwrap_or(Err(Failure::Abandoned))
    }

    fn outcome(&self) -> MutexGuard<'_, Option<Result<Arc<T>, Failure<E>>>> {
        // One call writes it.
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, T, E> Default for Uploads<K, T, E> {
    fn default() -> Self {
        Self { entries: Mutex::default() }
    }
}

impl<K, T, E> fmt::Debug for Uploads<K, T, E> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Uploads").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::{Attempt, Failure, Uploads};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Barrier};
    use std::thread;
    use std::time::Duration;

    /// A block on a device that is main memory, which counts what is allocated and what is left.
    struct Block<'a> {
        bytes: Vec<u8>,
        live: &'a AtomicUsize,
    }

    impl<'a> Block<'a> {
        fn upload(bytes: &[u8], uploads: &AtomicUsize, live: &'a AtomicUsize) -> Arc<Self> {
            uploads.fetch_add(1, Ordering::Relaxed);
            live.fetch_add(1, Ordering::Relaxed);
            // Others have time to ask meanwhile.
            thread::sleep(Duration::from_millis(2));
            Arc::new(Self { bytes: bytes.to_vec(), live })
        }
    }

    impl Drop for Block<'_> {
        fn drop(&mut self) {
            self.live.fetch_sub(1, Ordering::Relaxed);
        }
    }

    type Table<'a> = Uploads<(usize, &'static str), Block<'a>, String>;

    #[test]
    fn eight_threads_upload_each_storage_once_and_the_last_user_frees_it() {
        const STORAGES: usize = 40;
        let (uploads, live) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let table = Table::default();
        let barrier = Barrier::new(8);
        for round in 1..=3 {
            thread::scope(|scope| {
                for number in 0..8 {
                    let (table, uploads, live, barrier) = (&table, &uploads, &live, &barrier);
                    scope.spawn(move || {
                        barrier.wait();
                        let mut used = Vec::new();
                        for index in 0..STORAGES {
                            // Each thread begins elsewhere, so that all of them make and wait.
                            let storage = (index + number * 5) % STORAGES;
                            let make = || Ok(Block::upload(&[storage as u8; 64], uploads, live));
                            let block = table
                                .get(&(storage, "fake:0"), |_| true, Attempt::wait, make)
                                .unwrap_or_else(|_| panic!("storage {storage}"));
                            assert_eq!(block.bytes, [storage as u8; 64]);
                            used.push(block);
                        }
                        barrier.wait();
                        assert_eq!(live.load(Ordering::Relaxed), STORAGES);
                        barrier.wait();
                    });
                }
            });
            assert_eq!(live.load(Ordering::Relaxed), 0, "the last user has freed it");
            assert_eq!(uploads.load(Ordering::Relaxed), round * STORAGES);
        }
        assert!(table.entries().len() <= STORAGES);
    }

    #[test]
    fn another_device_is_another_upload() {
        let (uploads, live) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let table = Table::default();
        let on = |device| {
            let make = || Ok(Block::upload(b"weights", &uploads, &live));
            table
                .get(&(1, device), |_| true, Attempt::wait, make)
                .unwrap_or_else(|_| panic!("{device}"))
        };
        let blocks = [on("fake:0"), on("fake:1"), on("fake:0")];
        assert!(Arc::ptr_eq(&blocks[0], &blocks[2]) && !Arc::ptr_eq(&blocks[0], &blocks[1]));
        assert_eq!(uploads.load(Ordering::Relaxed), 2);
        drop(blocks);
        // Unused entries leave the table when something is made.
        let _again = on("fake:2");
        assert_eq!(table.entries().len(), 1);
    }

    #[test]
    fn an_error_reaches_all_who_wait_and_the_next_tries_again() {
        let (uploads, live) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let table = Table::default();
        let key = (7, "fake:0");
        let waiting = AtomicUsize::new(0);
        let errors: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    let (table, uploads, waiting) = (&table, &uploads, &waiting);
                    scope.spawn(move || {
                        let make = || {
                            uploads.fetch_add(1, Ordering::SeqCst);
                            while waiting.load(Ordering::SeqCst) < 7 {
                                thread::yield_now();
                            }
                            Err("out of memory".to_owned())
                        };
                        table
                            .get(
                                &key,
                                |_| true,
                                |attempt| {
                                    waiting.fetch_add(1, Ordering::SeqCst);
                                    attempt.wait()
                                },
                                make,
                            )
                            .err()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
        });
        assert_eq!(errors, vec![Some(Failure::Error("out of memory".to_owned())); 8]);
        assert_eq!(uploads.load(Ordering::Relaxed), 1);
        let make = || Ok(Block::upload(b"now", &uploads, &live));
        assert!(
            table.get(&key, |_| true, Attempt::wait, make).is_ok_and(|block| block.bytes == b"now")
        );
    }

    #[test]
    fn a_panic_ends_the_wait_and_what_needs_itself_is_refused() {
        let (uploads, live) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let table = Table::default();
        let key = (1, "fake:0");
        let barrier = Barrier::new(2);
        thread::scope(|scope| {
            let waiter = scope.spawn(|| {
                barrier.wait();
                table
                    .get(
                        &key,
                        |_| true,
                        |attempt| {
                            barrier.wait();
                            attempt.wait()
                        },
                        || unreachable!("another thread is at it"),
                    )
                    .err()
            });
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                table.get(
                    &key,
                    |_| true,
                    Attempt::wait,
                    || {
                        barrier.wait();
                        barrier.wait();
                        panic!("the device is gone")
                    },
                )
            }));
            assert!(panicked.is_err());
            assert_eq!(waiter.join().expect("no panic"), Some(Failure::Abandoned));
        });
        let made = table.get(
            &key,
            |_| true,
            Attempt::wait,
            || {
                let inner =
                    table.get(&key, |_| true, Attempt::wait, || unreachable!("it is being made"));
                assert_eq!(inner.err(), Some(Failure::Recursive));
                Ok(Block::upload(b"now", &uploads, &live))
            },
        );
        assert!(made.is_ok());
    }
}
