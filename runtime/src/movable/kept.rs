//! References to Python objects that outlive a session.

use crate::interpreter::{Inner, Interpreter};
use crate::object::Object;
use crate::payload::table::Handle;
use crate::session::Session;
use std::ffi::c_void;
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
        Self { interpreter: object.session().interpreter().clone(), handle: object.into_handle() }
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

impl Kept {
    /// Lets go of an object that has memory on a device, after its interpreter has waited for what
    /// is queued there: others may still read the memory. Never waits itself: the interpreter does,
    /// when somebody next enters it.
    pub(super) fn drop_after_device(self, location: String) {
        let interpreter = Arc::downgrade(&self.interpreter.0);
        let waiting = Box::into_raw(Box::new(Waiting { interpreter, location }));
        // SAFETY: `defer` may be called by any thread, and calls `wait` once with the box that it
        // takes over.
        unsafe { (self.interpreter.0.table().defer)(wait, waiting.cast()) };
        // The reference is given up behind it: the queue keeps the order.
        drop(self);
    }
}

struct Waiting {
    /// Weak, since the interpreter's own queue holds it.
    interpreter: Weak<Inner>,
    location: String,
}

/// # Safety
///
/// `waiting` must come from `Box::into_raw` of a [`Waiting`], and is freed. This thread must hold
/// the GIL of its interpreter.
unsafe extern "C" fn wait(waiting: *mut c_void) {
    // SAFETY: as the caller vouches.
    let waiting = unsafe { Box::from_raw(waiting.cast::<Waiting>()) };
    // While an interpreter is finalized there is no session to be had. It ends with its last
    // reference, when nothing of its own is queued any more.
    let Some(inner) = waiting.interpreter.upgrade() else {
        return;
    };
    let session = Interpreter(inner).session();
    let waited = session
        .import("_hydrozoa.devices")
        .and_then(|devices| devices.call_method("release", (waiting.location.as_str(),)));
    if let Err(error) = waited {
        // A device that does not answer any more: nobody will read the memory.
        tracing::warn!(
            interpreter = session.interpreter().name(),
            device = waiting.location,
            %error,
            "memory is given back without having waited for the device"
        );
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
