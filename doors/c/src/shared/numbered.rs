//! Values that the interpreters' Python code finds by a number.

use runtime::loader::undisturbed;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The living values, by their numbers. It keeps none of them alive.
pub(crate) struct Registry<T: 'static>(Mutex<BTreeMap<u64, Weak<Numbered<T>>>>);

/// A value with a number that no other value of this process has or gets.
pub(crate) struct Numbered<T: 'static> {
    id: u64,
    registry: &'static Registry<T>,
    value: T,
}

impl<T> Registry<T> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    pub(crate) fn add(&'static self, value: T) -> Arc<Numbered<T>> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let id = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let numbered = Arc::new(Numbered { id, registry: self, value });
        self.with(|entries| entries.insert(id, Arc::downgrade(&numbered)));
        numbered
    }

    /// The value of that number, if it is still alive.
    pub(crate) fn find(&self, id: u64) -> Option<Arc<Numbered<T>>> {
        self.with(|entries| entries.get(&id)?.upgrade())
    }

    /// Calls `action` with the values, which it does not drop. A fork waits meanwhile, so that its child can do this too.
    fn with<R>(&self, action: impl FnOnce(&mut BTreeMap<u64, Weak<Numbered<T>>>) -> R) -> R {
        // Each change is one call.
        undisturbed(|| action(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

impl<T> Numbered<T> {
    pub(crate) fn id(&self) -> u64 {
        self.id
    }
}

impl<T> Deref for Numbered<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> Drop for Numbered<T> {
    fn drop(&mut self) {
        self.registry.with(|entries| entries.remove(&self.id));
    }
}

#[cfg(test)]
mod tests {
    use super::Registry;

    #[test]
    fn a_value_is_found_as_long_as_somebody_has_it() {
        static WORDS: Registry<&str> = Registry::new();
        let (one, other) = (WORDS.add("one"), WORDS.add("other"));
        assert_ne!(one.id(), other.id());
        assert_eq!(WORDS.find(one.id()).map(|found| **found), Some("one"));
        let id = one.id();
        drop(one);
        assert!(WORDS.find(id).is_none());
        assert_eq!(WORDS.with(|entries| entries.len()), 1);
    }
}
