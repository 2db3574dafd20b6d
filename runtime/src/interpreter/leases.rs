//! The count of an interpreter's open sessions.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Counts an interpreter's sessions.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    open: AtomicUsize,
    /// Whether something was loaded since the count was last zero.
    loaded: AtomicBool,
}

impl Leases {
    /// The number of open sessions: the load by which a pool chooses.
    pub(crate) fn count(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// One more.
    pub(crate) fn add(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// One more, if nobody has changed the count since `seen` was read.
    pub(crate) fn add_if(&self, seen: usize) -> bool {
        self.open.compare_exchange(seen, seen + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// One less. True if it was the last one after a load: a session around the model's first call ends
    /// after that call, and loading uses sessions of its own inside.
    pub(crate) fn end(&self) -> bool {
        let last = self.open.fetch_sub(1, Ordering::Relaxed) == 1;
        last && self.loaded.swap(false, Ordering::Relaxed)
    }

    /// Notes that a package's object was loaded, which leaves free pieces all over the heap.
    pub(crate) fn note_load(&self) {
        self.loaded.store(true, Ordering::Relaxed);
    }
}
