//! References to an interpreter's objects that do not keep it alive.
//!
//! Their owner may outlive the interpreter. The references are released before the end, because the end of Python
//! frees neither an object with references left nor the memory that was lent to it.

use super::{Inner, Interpreter};
use crate::payload::release;
use crate::payload::table::{Handle, PayloadTable};
use hydrozoa_loader::LeafLock;
use std::any::TypeId;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The references that an interpreter's end releases.
#[derive(Debug, Default)]
pub(super) struct ReferenceTable {
    next: AtomicU64,
    /// The addresses of the objects, by numbers of their own.
    listed: LeafLock<BTreeMap<u64, usize>>,
}

/// The Python classes of Rust types. The interpreter keeps them until its end.
#[derive(Default)]
pub(super) struct Classes(LeafLock<HashMap<TypeId, ObjectReference>>);

impl Classes {
    pub(super) fn get(&self, id: TypeId) -> Option<Handle> {
        self.0.with(|classes| classes.get(&id).map(|class| class.handle))
    }

    /// Adds one unless one exists. True if it was added.
    pub(super) fn add(&self, id: TypeId, class: ObjectReference) -> bool {
        // The other one is dropped without the lock.
        let mut class = Some(class);
        self.0.with(|classes| {
            if let Entry::Vacant(place) = classes.entry(id) {
                class.take().map(|class| place.insert(class));
            }
        });
        class.is_none()
    }
}

/// A reference to an object of an interpreter that outlives the interpreter, and is released before its end.
pub(crate) struct ObjectReference {
    interpreter: Weak<Inner>,
    /// The name of the interpreter, which may have ended.
    name: Arc<str>,
    handle: Handle,
    /// Its number in the interpreter's table.
    number: u64,
}

// SAFETY: the handle is an address that is only used under the interpreter's GIL.
unsafe impl Send for ObjectReference {}
// SAFETY: as above.
unsafe impl Sync for ObjectReference {}

impl ObjectReference {
    /// Takes a reference over.
    ///
    /// # Safety
    ///
    /// `handle` must be an owned reference to an object of the interpreter.
    pub(crate) unsafe fn new(inner: &Arc<Inner>, handle: Handle) -> Self {
        let number = inner.references.add(handle);
        Self { interpreter: Arc::downgrade(inner), name: inner.name.clone(), handle, number }
    }

    /// The reference, if it is one of the interpreter's. It is valid as long as the interpreter and this live.
    pub(crate) fn handle_in(&self, inner: &Arc<Inner>) -> Option<Handle> {
        // No other interpreter has this address: `self` keeps the allocation.
        std::ptr::eq(self.interpreter.as_ptr(), Arc::as_ptr(inner)).then_some(self.handle)
    }

    /// Whether both refer to one object. Each keeps its own reference to it as long as the interpreter lives.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.interpreter, &other.interpreter) && self.handle == other.handle
    }

    /// Its interpreter, unless that has begun to end.
    pub(crate) fn interpreter(&self) -> Option<Interpreter> {
        self.interpreter.upgrade().map(Interpreter)
    }

    /// Whether its interpreter has not begun to end.
    pub(crate) fn lives(&self) -> bool {
        self.interpreter.strong_count() != 0
    }

    /// The name of its interpreter.
    pub(crate) fn interpreter_name(&self) -> &Arc<str> {
        &self.name
    }
}

impl Drop for ObjectReference {
    /// Waits for nobody.
    fn drop(&mut self) {
        let Some(inner) = self.interpreter.upgrade() else { return };
        inner.references.remove(self.number);
        // SAFETY: the reference is owned, and is not in the list any more; any thread may release one.
        unsafe { release(&inner.table, self.handle) };
        // All others may have given the interpreter up meanwhile.
        if let Some(mut inner) = Arc::into_inner(inner) {
            inner.end(false);
        }
    }
}

impl ReferenceTable {
    /// Notes a reference, and returns its number.
    fn add(&self, handle: Handle) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.listed.with(|listed| listed.insert(number, handle.expose_provenance()));
        number
    }

    /// Forgets a reference, which the caller releases.
    fn remove(&self, number: u64) {
        self.listed.with(|listed| listed.remove(&number));
    }

    /// Releases all. Nobody adds or removes one any more: the interpreter ends.
    pub(super) fn release_all(&self, table: &PayloadTable) {
        for address in self.listed.with(std::mem::take).into_values() {
            // SAFETY: the reference belongs to the owner that noted it, which leaves it to this function when the
            // interpreter ends; any thread may release one.
            unsafe { (table.release)(std::ptr::with_exposed_provenance_mut(address)) };
        }
    }
}
