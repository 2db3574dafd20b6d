//! The pointer that Triton keeps for each backend, model and instance.

use crate::error::{self, Result};
use crate::sys::Error;
use hydrozoa_models::{Code, Failure};
use std::ffi::c_void;
use std::ptr::null_mut;

/// Gives a value to Triton to keep.
///
/// # Safety
///
/// `set` keeps a pointer for an object of Triton's.
pub(crate) unsafe fn keep<T>(value: T, set: impl FnOnce(*mut c_void) -> *mut Error) -> Result<()> {
    let kept = Box::into_raw(Box::new(value));
    // SAFETY: as the caller vouches.
    unsafe { error::check(set(kept.cast())) }.inspect_err(|_| {
        // SAFETY: nobody has taken it.
        drop(unsafe { Box::from_raw(kept) });
    })
}

/// The value that Triton keeps.
///
/// # Safety
///
/// `get` gives what [`keep`] has got for a `T`, and nobody takes it while the reference is used.
pub(crate) unsafe fn kept<'a, T>(
    get: impl FnOnce(*mut *mut c_void) -> *mut Error,
) -> Result<&'a T> {
    let mut value = null_mut();
    // SAFETY: as the caller vouches.
    unsafe {
        error::check(get(&raw mut value))?;
        value.cast::<T>().as_ref()
    }
    .ok_or_else(|| Failure::new(Code::Internal, "it was not initialized"))
}

/// Takes the value back. `None` if it is not set.
///
/// # Safety
///
/// `get` and `set` are of one object, and nobody uses its value from now on.
pub(crate) unsafe fn take<T>(
    get: impl FnOnce(*mut *mut c_void) -> *mut Error,
    set: impl FnOnce(*mut c_void) -> *mut Error,
) -> Result<Option<Box<T>>> {
    let mut value = null_mut();
    // SAFETY: as the caller vouches.
    unsafe {
        error::check(get(&raw mut value))?;
        error::check(set(null_mut()))?;
        Ok((!value.is_null()).then(|| Box::from_raw(value.cast::<T>())))
    }
}

/// The JSON of a message.
///
/// # Safety
///
/// The message is valid.
pub(crate) unsafe fn json(message: *mut crate::sys::Message) -> Result<String> {
    let (mut start, mut len) = (std::ptr::null(), 0);
    // SAFETY: as the caller vouches. The text is the message's, and is copied.
    unsafe {
        let get = crate::sys::core().TRITONSERVER_MessageSerializeToJson;
        error::check(get(message, &raw mut start, &raw mut len))?;
        if len == 0 {
            return Ok(String::new());
        }
        let bytes = std::slice::from_raw_parts(start.cast::<u8>(), len);
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }
}

/// The value of a JSON text that Triton gives.
pub(crate) fn parse(text: &str, what: &str) -> Result<serde_json::Value> {
    if text.is_empty() {
        return Ok(serde_json::Value::Null);
    }
    serde_json::from_str(text)
        .map_err(|error| Failure::new(Code::Internal, format!("{what} is not JSON: {error}")))
}
