//! References to Python objects that outlive a session.

use crate::interpreter::Interpreter;
use crate::object::Object;
use crate::payload::{release, table::Handle};
use crate::session::Session;
use crate::settled_pages::Shared;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A reference to an object of one interpreter, which it keeps alive as well.
///
/// Dropping it never waits: see [`Object`].
pub(crate) struct OwnedObject {
    interpreter: Interpreter,
    handle: Handle,
}

// SAFETY: as for `Object`: the handle is an address that is only used under the interpreter's GIL.
unsafe impl Send for OwnedObject {}
// SAFETY: as above.
unsafe impl Sync for OwnedObject {}

impl OwnedObject {
    /// Keeps an object beyond its session.
    pub(crate) fn new(object: Object<'_>) -> Self {
        let (session, handle) = object.into_parts();
        Self { interpreter: session.interpreter().clone(), handle }
    }

    /// Notes that other interpreters can write memory of its interpreter at these addresses.
    pub(crate) fn shares(&self, range: Range<usize>) -> Option<Shared> {
        self.interpreter.0.shares(range)
    }

    /// Whether the object is one of the session's interpreter.
    pub(crate) fn belongs_to(&self, session: &Session) -> bool {
        Arc::ptr_eq(&self.interpreter.0, session.inner())
    }

    /// The object, in a session of its own interpreter.
    ///
    /// # Panics
    ///
    /// If the session is another interpreter's.
    pub(crate) fn object<'s>(&self, session: &'s Session) -> Object<'s> {
        assert!(
            self.belongs_to(session),
            "an object of {} in a session of {}",
            self.interpreter.name(),
            session.interpreter().name(),
        );
        // SAFETY: this reference keeps the object alive, and it is of the session's interpreter.
        unsafe { Object::from_borrowed(session, self.handle) }
    }
}

impl Drop for OwnedObject {
    fn drop(&mut self) {
        // SAFETY: the reference is owned, and `release` may be called by any thread.
        unsafe { release(self.interpreter.0.table(), self.handle) };
    }
}

impl fmt::Debug for OwnedObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "<an object of {}>", self.interpreter.name())
    }
}
