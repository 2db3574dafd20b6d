//! References to Python objects that outlive a session.

use crate::interpreter::{Inner, Interpreter, Key};
use crate::object::Object;
use crate::payload::table::Handle;
use crate::session::Session;
use std::fmt;
use std::sync::{Arc, Weak};

/// A reference to an object of one interpreter, which it keeps alive as well.
///
/// Dropping it never waits: see [`Object`].
pub(crate) struct Kept {
    interpreter: Interpreter,
    handle: Handle,
}

// SAFETY: as for `Object`: the handle is an address that is only used under the interpreter's GIL.
unsafe impl Send for Kept {}
// SAFETY: as above.
unsafe impl Sync for Kept {}

impl Kept {
    /// Keeps an object beyond its session.
    pub(crate) fn new(object: Object<'_>) -> Self {
        let (session, handle) = object.into_parts();
        Self { interpreter: session.interpreter().clone(), handle }
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

impl Drop for Kept {
    fn drop(&mut self) {
        // SAFETY: the reference is owned, and `release` may be called by any thread.
        unsafe { (self.interpreter.0.table().release)(self.handle) };
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "<an object of {}>", self.interpreter.name())
    }
}

/// A reference to an object of one interpreter, which it does not keep alive: the reference ends with the interpreter.
pub(crate) struct Copied {
    interpreter: Weak<Inner>,
    key: Key,
}

impl Copied {
    /// Keeps an object as long as its interpreter lives.
    pub(crate) fn new(object: Object<'_>) -> Self {
        let (session, handle) = object.into_parts();
        let inner = session.inner();
        Self { interpreter: Arc::downgrade(inner), key: inner.kept().add(handle) }
    }

    /// Whether its interpreter has not begun to end.
    pub(crate) fn lives(&self) -> bool {
        self.interpreter.strong_count() != 0
    }

    /// The object, in a session of its own interpreter.
    ///
    /// # Panics
    ///
    /// If the session is another interpreter's.
    pub(crate) fn object<'s>(&self, session: &'s Session) -> Object<'s> {
        let own = std::ptr::eq(self.interpreter.as_ptr(), Arc::as_ptr(session.inner()));
        assert!(own, "an object of another interpreter in a session of {session:?}");
        // SAFETY: the session keeps the interpreter alive, which keeps the object, and the object is of that interpreter.
        unsafe { Object::from_borrowed(session, self.key.handle()) }
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        if let Some(inner) = self.interpreter.upgrade() {
            inner.kept().release(self.key, inner.table());
        }
    }
}

impl fmt::Debug for Copied {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "<a copy in {:?}>", self.interpreter.upgrade())
    }
}
