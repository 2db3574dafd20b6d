//! Owned references: an early return cannot leak one or free it twice.

use crate::fault::{Fault, Outcome};
use crate::table::Handle;
use pyo3_ffi::{Py_DECREF, Py_INCREF, PyObject, PyUnicode_FromStringAndSize};
use std::ptr::NonNull;

/// A strong reference. Only attached threads make, use and drop it.
pub(crate) struct Ref(NonNull<PyObject>);

impl Ref {
    /// Takes over the result of a C API function.
    ///
    /// # Safety
    ///
    /// `object` is a new reference, or null with an exception set. The thread is attached.
    pub(crate) unsafe fn owned(object: *mut PyObject) -> Outcome<Self> {
        NonNull::new(object).map(Self).ok_or(Fault::Raised)
    }

    /// One more reference to an object.
    ///
    /// # Safety
    ///
    /// `object` is alive, or null with an exception set; the thread is attached.
    pub(crate) unsafe fn borrowed(object: *mut PyObject) -> Outcome<Self> {
        let object = NonNull::new(object).ok_or(Fault::Raised)?;
        // SAFETY: it is alive, by contract.
        unsafe { Py_INCREF(object.as_ptr()) };
        Ok(Self(object))
    }

    /// A new `str`.
    ///
    /// # Safety
    ///
    /// The thread is attached.
    pub(crate) unsafe fn text(bytes: &[u8]) -> Outcome<Self> {
        // SAFETY: the bytes are readable, and the thread is attached by contract. A length beyond
        // isize cannot occur in a slice.
        unsafe {
            Self::owned(PyUnicode_FromStringAndSize(bytes.as_ptr().cast(), bytes.len() as isize))
        }
    }

    /// The borrowed pointer.
    pub(crate) fn as_ptr(&self) -> *mut PyObject {
        self.0.as_ptr()
    }

    /// Passes the reference on to the caller.
    pub(crate) fn into_handle(self) -> Handle {
        let handle = self.0.as_ptr().cast();
        std::mem::forget(self);
        handle
    }
}

impl Drop for Ref {
    fn drop(&mut self) {
        // SAFETY: the reference is owned, and the thread attached.
        unsafe { Py_DECREF(self.0.as_ptr()) };
    }
}
