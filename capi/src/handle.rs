//! References to Python objects.

use crate::pointers::free;
use runtime::{Handle, Object};

/// A reference to a Python object. Any thread may have, copy and free it, and it outlives the session that has made it.
/// It is used in a session on its interpreter.
///
/// It does not keep its interpreter alive: when the interpreter has ended, its use is HZ_ERROR_ENDED.
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
pub unsafe extern "C" fn hz_object_clone(object: *const hz_object) -> *mut hz_object {
    // SAFETY: the caller keeps the rules of the header.
    match unsafe { object.as_ref() } {
        Some(object) => Box::into_raw(Box::new(hz_object(object.0.clone()))),
        None => std::ptr::null_mut(),
    }
}

/// Gives a reference up. NULL is allowed. It never waits: if the last reference is given up outside of a call, the next
/// thread that enters the interpreter frees the object.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hz_object_free(object: *mut hz_object) {
    // SAFETY: the caller keeps the rules of the header.
    unsafe { free(object) }
}
