//! Pointers of callers: arguments that are checked, and places for results.
//!
//! All trust callers to keep the rules of the header: a pointer is NULL or valid, and its target lives during the call. So a
//! handle is an `Option<&T>`, and one that its owner gives up an `Option<Box<T>>`. Texts, arrays and places for results, which a
//! caller need not have written before, have no such type: functions for them are unsafe.

use super::failure::{Failure, Result};
use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::{ptr, slice};

/// An argument that must not be NULL.
pub(crate) fn given<T>(argument: Option<T>, name: &str) -> Result<T> {
    argument.ok_or_else(|| null(name))
}

/// Frees what the caller gives up. Nobody can be told of a panic in a destructor.
pub(crate) fn free<T>(value: Option<Box<T>>) {
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(value))) {
        std::mem::forget(panic);
    }
}

/// Where a caller wants a result.
pub(crate) struct ResultSlot<'a, T>(&'a mut *mut T);

impl<T> ResultSlot<'_, T> {
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
pub(crate) unsafe fn slot<'a, T>(out: *mut *mut T, name: &str) -> Result<ResultSlot<'a, T>> {
    // SAFETY: as the caller vouches.
    unsafe { slot_or_none(out) }.ok_or_else(|| null(name))
}

/// The same for a result that the caller may not want.
///
/// # Safety
///
/// As [`slot`].
pub(crate) unsafe fn slot_or_none<'a, T>(out: *mut *mut T) -> Option<ResultSlot<'a, T>> {
    if out.is_null() {
        return None;
    }
    // SAFETY: as the caller vouches. It is written before there is a reference to it.
    unsafe {
        out.write(ptr::null_mut());
        Some(ResultSlot(&mut *out))
    }
}

/// Gives the caller what `make` makes.
///
/// # Safety
///
/// As [`slot`].
pub(crate) unsafe fn fill<T>(
    out: *mut *mut T,
    name: &str,
    make: impl FnOnce() -> Result<T>,
) -> Result<()> {
    // SAFETY: as the caller vouches.
    unsafe { slot(out, name) }?.put(make()?);
    Ok(())
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

/// A text for the operating system.
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

/// A copy of a caller's memory. It may be of any size.
pub(crate) fn copied(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut copy = Vec::new();
    copy.try_reserve_exact(bytes.len()).map_err(|_| Failure::memory(bytes.len()))?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

fn null(name: &str) -> Failure {
    Failure::argument(format!("{name} is NULL"))
}
