//! References that do not keep their interpreter alive.

use crate::interpreter::{Inner, Interpreter, Key, let_go};
use crate::payload::table::Handle;
use std::sync::{Arc, Weak};

/// A reference to an object of an interpreter that outlives the interpreter, and is released before its end.
pub(super) struct Kept {
    interpreter: Weak<Inner>,
    /// The name of the interpreter, which may have ended.
    name: Box<str>,
    key: Key,
}

impl Kept {
    /// Takes a reference over.
    ///
    /// # Safety
    ///
    /// `handle` must be an owned reference to an object of the interpreter.
    pub(super) unsafe fn new(inner: &Arc<Inner>, handle: Handle) -> Self {
        let key = inner.kept().add(handle);
        Self { interpreter: Arc::downgrade(inner), name: inner.name().into(), key }
    }

    /// The reference, if it is one of the interpreter's. It is valid as long as the interpreter and this live.
    pub(super) fn handle_in(&self, inner: &Arc<Inner>) -> Option<Handle> {
        // The address is no other interpreter's: this keeps the allocation.
        let own = std::ptr::eq(self.interpreter.as_ptr(), Arc::as_ptr(inner));
        own.then(|| self.key.handle())
    }

    /// Whether both refer to one object. Each keeps its own reference to it as long as the interpreter lives.
    pub(super) fn is(&self, other: &Self) -> bool {
        Weak::ptr_eq(&self.interpreter, &other.interpreter)
            && self.key.handle() == other.key.handle()
    }

    /// Its interpreter, unless that has begun to end.
    pub(super) fn interpreter(&self) -> Option<Interpreter> {
        self.interpreter.upgrade().map(Interpreter)
    }

    /// The name of its interpreter.
    pub(super) fn interpreter_name(&self) -> &str {
        &self.name
    }
}

impl Drop for Kept {
    /// Waits for nobody.
    fn drop(&mut self) {
        if let Some(inner) = self.interpreter.upgrade() {
            inner.kept().release(self.key, inner.table());
            let_go(inner);
        }
    }
}
