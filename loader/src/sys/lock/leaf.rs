//! Locks for others that no child of a fork finds taken.
//!
//! Code that a domain runs forks. The child goes on in its domain and calls into the host, whose functions take locks. Had
//! another thread one of them at the moment of the fork, it would stay locked in the child for ever. So a fork waits until
//! these locks are free ([`undisturbed`]).

use std::sync::{Mutex, PoisonError};

use super::undisturbed;

/// A lock that is held for moments. Whoever holds it waits for nobody and takes no other lock.
#[derive(Debug, Default)]
pub struct Leaf<T>(Mutex<T>);

impl<T> Leaf<T> {
    /// A free lock of `value`.
    pub const fn new(value: T) -> Leaf<T> {
        Leaf(Mutex::new(value))
    }

    /// Calls `action` with the value. It must not drop what takes a lock itself.
    pub fn with<R>(&self, action: impl FnOnce(&mut T) -> R) -> R {
        // A panic leaves no change half done: each user makes one change in a call.
        undisturbed(|| action(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}
