//! Pointers of callers: arguments that are checked, and places for results.
//!
//! The functions here are unsafe because they trust pointers. What they trust is what the header demands of callers: a
//! pointer is NULL or valid, and what it points to lives during the call.

use crate::failure::{Failure, Result};
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::{ptr, slice};

/// What a pointer refers to.
///
/// # Safety
///
/// The pointer is NULL or valid, and stays so while the result is used.
pub(crate) unsafe fn reference<'a, T>(pointer: *const T, name: &str) -> Result<&'a T> {
    // SAFETY: as the caller vouches.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// The same for a function that cannot fail: `otherwise` is the answer for NULL.
///
/// # Safety
///
/// As [`reference`].
pub(crate) unsafe fn reference_or<T, R>(
    pointer: *const T,
    otherwise: R,
    answer: impl FnOnce(&T) -> R,
) -> R {
    // SAFETY: as the caller vouches.
    match unsafe { pointer.as_ref() } {
        Some(value) => answer(value),
        None => otherwise,
    }
}

/// What a pointer refers to, for changes.
///
/// # Safety
///
/// As [`reference`], and nobody else uses the value meanwhile.
pub(crate) unsafe fn exclusive<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T> {
    // SAFETY: as the caller vouches.
    unsafe { pointer.as_mut() }.ok_or_else(|| null(name))
}

/// Takes a value from its owner.
///
/// # Safety
///
/// The pointer is NULL, or comes from [`Place::put`] and has not been taken.
pub(crate) unsafe fn take<T>(pointer: *mut T, name: &str) -> Result<T> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: as the caller vouches.
    Ok(*unsafe { Box::from_raw(pointer) })
}

/// Frees a value. Nobody can be told of a panic in a destructor.
///
/// # Safety
///
/// As [`take`].
pub(crate) unsafe fn free<T>(pointer: *mut T) {
    if pointer.is_null() {
        return;
    }
    let ended = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: as the caller vouches.
        drop(unsafe { Box::from_raw(pointer) });
    }));
    if let Err(panic) = ended {
        std::mem::forget(panic);
    }
}

/// Where a caller wants a result.
pub(crate) struct Place<'a, T>(&'a mut *mut T);

impl<T> Place<'_, T> {
    /// Gives the value to the caller.
    pub(crate) fn put(self, value: T) {
        *self.0 = Box::into_raw(Box::new(value));
    }
}

/// The place for a result that the caller will own. It is NULL until the result is there.
///
/// # Safety
///
/// The pointer is NULL or a place for a pointer.
pub(crate) unsafe fn place<'a, T>(out: *mut *mut T, name: &str) -> Result<Place<'a, T>> {
    // SAFETY: as the caller vouches.
    unsafe { place_or_none(out) }.ok_or_else(|| null(name))
}

/// The same for a result that the caller may not want.
///
/// # Safety
///
/// As [`place`].
pub(crate) unsafe fn place_or_none<'a, T>(out: *mut *mut T) -> Option<Place<'a, T>> {
    if out.is_null() {
        return None;
    }
    // SAFETY: as the caller vouches. It is written before there is a reference to it.
    unsafe {
        out.write(ptr::null_mut());
        Some(Place(&mut *out))
    }
}

/// Refuses NULL, before there is something to write.
pub(crate) fn not_null<T>(pointer: *const T, name: &str) -> Result<()> {
    match pointer.is_null() {
        true => Err(null(name)),
        false => Ok(()),
    }
}

/// Writes a plain result.
///
/// # Safety
///
/// The pointer is NULL or a place for a `T`.
pub(crate) unsafe fn write<T: Copy>(out: *mut T, name: &str, value: T) -> Result<()> {
    not_null(out, name)?;
    // SAFETY: as the caller vouches.
    unsafe { out.write(value) };
    Ok(())
}

/// A text that ends with NUL.
///
/// # Safety
///
/// The pointer is NULL or refers to such a text, which stays as it is while the result is used.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str> {
    // SAFETY: as the caller vouches.
    let text = unsafe { c_text(pointer, name) }?;
    text.to_str().map_err(|_| Failure::argument(format!("{name} is not UTF-8: {text:?}")))
}

/// A path that ends with NUL. It may be any bytes.
///
/// # Safety
///
/// As [`text`].
pub(crate) unsafe fn path<'a>(pointer: *const c_char, name: &str) -> Result<&'a Path> {
    // SAFETY: as the caller vouches.
    unsafe { os_text(pointer, name) }.map(Path::new)
}

/// What the operating system takes as a text.
///
/// # Safety
///
/// As [`text`].
pub(crate) unsafe fn os_text<'a>(pointer: *const c_char, name: &str) -> Result<&'a OsStr> {
    // SAFETY: as the caller vouches.
    unsafe { c_text(pointer, name) }.map(|text| OsStr::from_bytes(text.to_bytes()))
}

unsafe fn c_text<'a>(pointer: *const c_char, name: &str) -> Result<&'a CStr> {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: the caller vouches for a text that ends with NUL.
    Ok(unsafe { CStr::from_ptr(pointer) })
}

/// An array. It may be NULL if it is empty.
///
/// # Safety
///
/// The pointer refers to `len` values, which stay as they are while the result is used.
pub(crate) unsafe fn array<'a, T>(pointer: *const T, len: usize, name: &str) -> Result<&'a [T]> {
    if len == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(null(name));
    }
    if len > isize::MAX as usize / size_of::<T>().max(1) {
        return Err(Failure::argument(format!("{name} cannot have {len} elements")));
    }
    // SAFETY: as the caller vouches; the length fits into memory.
    Ok(unsafe { slice::from_raw_parts(pointer, len) })
}

/// A copy of what a caller has. It may be of any size.
pub(crate) fn copied(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).map_err(|_| Failure::memory(bytes.len()))?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

fn null(name: &str) -> Failure {
    Failure::argument(format!("{name} is NULL"))
}
