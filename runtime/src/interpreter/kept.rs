//! References to an interpreter's objects that do not keep it alive.
//!
//! Whoever has one may outlive the interpreter. The references are released before the end, because the end of Python
//! frees no object that somebody refers to, and with it none of the memory that the object was lent.

use super::{Inner, Interpreter};
use crate::payload::table::{Handle, PayloadTable};
use hydrozoa_loader::Leaf;
use std::any::TypeId;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Weak};

/// The references that an interpreter's end releases.
#[derive(Debug, Default)]
pub(super) struct KeptObjects(Leaf<Slots>);

/// The Python classes of Rust types. The interpreter keeps them until its end.
#[derive(Default)]
pub(super) struct Classes(Leaf<HashMap<TypeId, Kept>>);

impl Classes {
    pub(super) fn get(&self, id: TypeId) -> Option<Handle> {
        self.0.with(|classes| classes.get(&id).map(|class| class.handle))
    }

    /// Adds one, unless there is one. True if there was none.
    pub(super) fn add(&self, id: TypeId, class: Kept) -> bool {
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

/// A list in which an entry keeps its place, and a free place is used again.
#[derive(Debug, Default)]
struct Slots {
    slots: Vec<Slot>,
    /// The first free place.
    free: Option<usize>,
}

#[derive(Debug)]
enum Slot {
    /// The address of an object.
    Used(usize),
    /// The next free place.
    Free(Option<usize>),
}

/// A reference to an object of an interpreter that outlives the interpreter, and is released before its end.
pub(crate) struct Kept {
    interpreter: Weak<Inner>,
    /// The name of the interpreter, which may have ended.
    name: Arc<str>,
    handle: Handle,
    slot: usize,
}

// SAFETY: the handle is an address that is only used under the interpreter's GIL.
unsafe impl Send for Kept {}
// SAFETY: as above.
unsafe impl Sync for Kept {}

impl Kept {
    /// Takes a reference over.
    ///
    /// # Safety
    ///
    /// `handle` must be an owned reference to an object of the interpreter.
    pub(crate) unsafe fn new(inner: &Arc<Inner>, handle: Handle) -> Self {
        let slot = inner.kept.add(handle);
        Self { interpreter: Arc::downgrade(inner), name: inner.name.clone(), handle, slot }
    }

    /// The reference, if it is one of the interpreter's. It is valid as long as the interpreter and this live.
    pub(crate) fn handle_in(&self, inner: &Arc<Inner>) -> Option<Handle> {
        // The address is no other interpreter's: this keeps the allocation.
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
    pub(crate) fn interpreter_name(&self) -> &str {
        &self.name
    }
}

impl Drop for Kept {
    /// Waits for nobody.
    fn drop(&mut self) {
        let Some(inner) = self.interpreter.upgrade() else { return };
        inner.kept.remove(self.slot);
        // SAFETY: the reference is owned, and is not in the list any more; any thread may release one.
        unsafe { (inner.table.release)(self.handle) };
        // All others may have given the interpreter up meanwhile.
        if let Some(mut inner) = Arc::into_inner(inner) {
            inner.end(false);
        }
    }
}

impl KeptObjects {
    /// Notes a reference.
    fn add(&self, handle: Handle) -> usize {
        let used = Slot::Used(handle.expose_provenance());
        self.0.with(|list| match list.free {
            Some(place) => {
                if let Slot::Free(next) = std::mem::replace(&mut list.slots[place], used) {
                    list.free = next;
                }
                place
            }
            None => {
                list.slots.push(used);
                list.slots.len() - 1
            }
        })
    }

    /// Forgets a reference, which the caller releases.
    fn remove(&self, place: usize) {
        self.0.with(|list| {
            list.slots[place] = Slot::Free(list.free);
            list.free = Some(place);
        });
    }

    /// Releases all. Nobody adds or removes one any more: the interpreter ends.
    pub(super) fn release_all(&self, table: &PayloadTable) {
        for slot in self.0.with(std::mem::take).slots {
            if let Slot::Used(address) = slot {
                // SAFETY: the reference is owned by whoever has noted it, and that one leaves it to this function when the
                // interpreter ends; any thread may release one.
                unsafe { (table.release)(std::ptr::with_exposed_provenance_mut(address)) };
            }
        }
    }
}
