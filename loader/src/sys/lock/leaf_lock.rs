//! Locks for other crates that no child of a fork finds taken.
//!
//! A domain's code may fork. The child goes on in its domain and calls into the host, whose functions take locks. If
//! another thread held one at the moment of the fork, it would stay locked in the child for ever. So a fork waits until
//! these locks are free ([`undisturbed`]).

use std::sync::{Mutex, PoisonError};

use super::undisturbed;

/// A lock that is held for moments. Its holder waits for nobody and takes no other lock.
#[derive(Debug, Default)]
pub struct LeafLock<T>(Mutex<T>);

impl<T> LeafLock<T> {
    /// A free lock of `value`.
    pub const fn new(value: T) -> LeafLock<T> {
        LeafLock(Mutex::new(value))
    }

    /// Calls `action` with the value. It must not drop anything that takes a lock itself.
    pub fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> R {
        // A panic leaves no change half done: each user makes one change in a call.
        undisturbed(|| action(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}
