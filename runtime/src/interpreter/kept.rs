//! References to an interpreter's objects that do not keep it alive.
//!
//! Whoever has one may outlive the interpreter. The references are released before the end, because the end of Python
//! frees no object that somebody refers to, and with it none of the memory that the object was lent.

use crate::leaf::Leaf;
use crate::payload::table::{Handle, PayloadTable};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

/// The references.
#[derive(Debug, Default)]
pub(crate) struct KeptObjects(Leaf<HashSet<Key>>);

/// A reference among [`KeptObjects`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    handle: usize,
    /// There may be several references to one object.
    number: u64,
}

impl Key {
    /// The reference. It is alive as long as the key is among the interpreter's.
    pub(crate) fn handle(self) -> Handle {
        std::ptr::with_exposed_provenance_mut(self.handle)
    }
}

impl KeptObjects {
    /// Takes a reference over.
    pub(crate) fn add(&self, handle: Handle) -> Key {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let key = Key { handle: handle.expose_provenance(), number };
        self.0.with(|kept| kept.insert(key));
        key
    }

    /// Releases one, unless that was done.
    pub(crate) fn release(&self, key: Key, table: &PayloadTable) {
        if self.0.with(|kept| kept.remove(&key)) {
            // SAFETY: the reference was owned by the set; any thread may release one.
            unsafe { (table.release)(key.handle()) };
        }
    }

    /// Releases all.
    pub(super) fn release_all(&self, table: &PayloadTable) {
        for key in self.0.with(std::mem::take) {
            // SAFETY: as above.
            unsafe { (table.release)(key.handle()) };
        }
    }
}
