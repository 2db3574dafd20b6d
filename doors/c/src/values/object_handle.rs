//! References to Python objects.

use crate::boundary::free;
use runtime::{Handle, Object};

/// A reference to a Python object. Any thread may hold, copy and free it, and it outlives the session that made it.
/// It is used in a session on its interpreter.
///
/// It does not keep its interpreter alive: once the interpreter has ended, using it returns HZ_ERROR_ENDED.
pub struct hz_object(Handle);

impl hz_object {
    pub(crate) fn keep(object: &Object<'_>) -> Self {
        Self(object.keep())
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.0
    }
}

/// One more reference to the same object. It needs no session. NULL for NULL. The caller owns the result.
#[unsafe(no_mangle)]
pub extern "C" fn hz_object_clone(object: Option<&hz_object>) -> Option<Box<hz_object>> {
    object.map(|object| Box::new(hz_object(object.0.clone())))
}

/// Gives a reference up. NULL is allowed. It never waits: if the last reference is given up outside of a call, the next
/// thread that enters the interpreter frees the object.
#[unsafe(no_mangle)]
pub extern "C" fn hz_object_free(object: Option<Box<hz_object>>) {
    free(object);
}
