//! Locks that no child of a fork finds taken.
//!
//! Python code forks: `os.fork`, multiprocessing, workers of a DataLoader. The child goes on in its interpreter.
//! There it frees tensors and calls host functions, and these take locks of this crate. Had another thread one
//! of them at the moment of the fork, it would stay locked in the child for ever. So a fork waits until
//! these locks are free ([`hydrozoa_loader::undisturbed`]).

use std::sync::{Mutex, PoisonError};

/// A lock that is held for moments. Whoever holds it waits for nobody and takes no other lock.
#[derive(Debug, Default)]
pub(crate) struct Leaf<T>(Mutex<T>);

impl<T> Leaf<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// Calls `action` with the value. It must not drop what takes a lock itself.
    pub(crate) fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> R {
        // A panic leaves no change half done: each user makes one change in a call.
        hydrozoa_loader::undisturbed(|| {
            action(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
        })
    }
}
