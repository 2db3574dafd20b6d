//! Locks of the adapter, which no child of a fork finds taken.
//!
//! Python code forks, and the child goes on in its interpreter. In libtorch it meets what the threads of other
//! interpreters were doing at that moment: a lock of ours or of libtorch's dispatcher that one of them had would
//! stay locked in the child for ever. So a fork waits until no thread holds a lock of ours. The calls of libtorch
//! that take the dispatcher's lock are made under one.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hydrozoa_loader::Undisturbed;

/// A right to a lock's value. A fork waits for its end.
///
/// Whoever has it calls nothing that loads libraries or looks up their symbols, and nothing that takes a GIL.
pub(super) struct Held<'a, T> {
    // The order in which they are dropped.
    value: MutexGuard<'a, T>,
    _no_fork: NoFork,
}

/// Locks, also after a panic: each step that changes a table of the adapter leaves it valid.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> Held<'_, T> {
    let no_fork = NoFork::begin();
    Held { value: mutex.lock().unwrap_or_else(PoisonError::into_inner), _no_fork: no_fork }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.value
    }
}

/// While it lives no thread forks. A thread may have several, one inside the other.
pub(super) struct NoFork(Option<Undisturbed>);

thread_local! {
    static HAS_ONE: Cell<bool> = const { Cell::new(false) };
}

impl NoFork {
    /// Waits while another thread forks, unless this one has a [`NoFork`] already.
    pub(super) fn begin() -> NoFork {
        if HAS_ONE.get() {
            return NoFork(None);
        }
        let begun = Undisturbed::begin();
        HAS_ONE.set(true);
        NoFork(Some(begun))
    }
}

impl Drop for NoFork {
    fn drop(&mut self) {
        if self.0.is_some() {
            HAS_ONE.set(false);
        }
    }
}

/// One thread at a time does something that takes microseconds. It may call libtorch, which calls the loader and takes
/// GILs: it holds no lock of ours, and nothing keeps others from a fork.
pub(super) struct Turns {
    /// The process of the thread whose turn it is, or 0. A forked child finds its parent's, whose thread it does not have.
    process: AtomicU32,
}

/// The calling thread's turn, until this is dropped.
pub(super) struct Turn<'a>(&'a Turns);

impl Turns {
    pub(super) const fn new() -> Turns {
        Turns { process: AtomicU32::new(0) }
    }

    /// Waits for the calling thread's turn.
    pub(super) fn wait(&self) -> Turn<'_> {
        let own = std::process::id();
        let mut expected = 0;
        loop {
            let before =
                self.process.compare_exchange(expected, own, Ordering::Acquire, Ordering::Relaxed);
            match before {
                Ok(_) => return Turn(self),
                Err(process) if process == own => {
                    expected = 0;
                    std::thread::yield_now();
                }
                Err(process) => expected = process,
            }
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.0.process.store(0, Ordering::Release);
    }
}
