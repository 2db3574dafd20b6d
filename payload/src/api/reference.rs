//! Owned references: an early return cannot leak one or free it twice.

use crate::api::fault::{Fault, Outcome};
use crate::table::Handle;
use pyo3_ffi::{
    Py_DECREF, Py_INCREF, PyErr_Clear, PyImport_ImportModule, PyLong_FromLong, PyObject,
    PyObject_GetAttrString, PyObject_Vectorcall, PyObject_VectorcallMethod, PyTuple_New,
    PyTuple_SetItem, PyUnicode_AsUTF8AndSize, PyUnicode_DecodeFSDefaultAndSize,
    PyUnicode_FromStringAndSize,
};
use std::ffi::{CStr, c_int, c_long};
use std::ptr::{self, NonNull};
use std::slice;

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

    /// A path, decoded as CPython decodes those of files.
    ///
    /// # Safety
    ///
    /// The thread is attached.
    pub(crate) unsafe fn path(bytes: &[u8]) -> Outcome<Self> {
        let (first, count) = (bytes.as_ptr().cast(), bytes.len() as isize);
        // SAFETY: as above.
        unsafe { Self::owned(PyUnicode_DecodeFSDefaultAndSize(first, count)) }
    }

    /// An `int`.
    ///
    /// # Safety
    ///
    /// The thread is attached.
    pub(crate) unsafe fn int(value: c_long) -> Outcome<Self> {
        // SAFETY: by contract.
        unsafe { Self::owned(PyLong_FromLong(value)) }
    }

    /// A tuple of `count` items.
    ///
    /// # Safety
    ///
    /// The thread is attached; there are as many items.
    pub(crate) unsafe fn tuple(
        count: usize,
        items: impl Iterator<Item = Outcome<Self>>,
    ) -> Outcome<Self> {
        // SAFETY: by contract; the tuple is new, and takes each item's reference over.
        unsafe {
            let tuple = Self::owned(PyTuple_New(count.cast_signed()))?;
            for (index, item) in items.enumerate() {
                let item = item?.into_handle().cast();
                done(PyTuple_SetItem(tuple.as_ptr(), index.cast_signed(), item))?;
            }
            Ok(tuple)
        }
    }

    /// A module, imported.
    ///
    /// # Safety
    ///
    /// The thread is attached.
    pub(crate) unsafe fn import(name: &CStr) -> Outcome<Self> {
        // SAFETY: by contract.
        unsafe { Self::owned(PyImport_ImportModule(name.as_ptr())) }
    }

    /// `getattr(self, name)`.
    ///
    /// # Safety
    ///
    /// The thread is attached.
    pub(crate) unsafe fn attribute(&self, name: &CStr) -> Outcome<Self> {
        // SAFETY: by contract.
        unsafe { Self::owned(PyObject_GetAttrString(self.as_ptr(), name.as_ptr())) }
    }

    /// `self(*arguments)`.
    ///
    /// # Safety
    ///
    /// The thread is attached, and the arguments are alive.
    pub(crate) unsafe fn call(&self, arguments: &[*mut PyObject]) -> Outcome<Self> {
        let (first, count) = (arguments.as_ptr(), arguments.len());
        // SAFETY: by contract.
        unsafe { Self::owned(PyObject_Vectorcall(self.as_ptr(), first, count, ptr::null_mut())) }
    }

    /// `self.name(argument)` for up to three arguments.
    ///
    /// # Safety
    ///
    /// The thread is attached, and the arguments are alive.
    pub(crate) unsafe fn call_method<const COUNT: usize>(
        &self,
        name: &CStr,
        arguments: [*mut PyObject; COUNT],
    ) -> Outcome<Self> {
        let mut all = [self.as_ptr(); 4];
        all[1..=COUNT].copy_from_slice(&arguments);
        // SAFETY: by contract.
        unsafe {
            let (name, none) = (Self::text(name.to_bytes())?, ptr::null_mut());
            Self::owned(PyObject_VectorcallMethod(name.as_ptr(), all.as_ptr(), 1 + COUNT, none))
        }
    }

    /// The text of a `str`; `None`, and no exception, for one with lone surrogates and for other objects.
    ///
    /// # Safety
    ///
    /// The thread is attached.
    pub(crate) unsafe fn utf8(&self) -> Option<&str> {
        // SAFETY: by contract; the text lives as long as the object.
        unsafe { utf8_of(self.as_ptr()) }
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

/// As [`Ref::utf8`].
///
/// # Safety
///
/// The thread is attached; the object lives for `'a`.
pub(crate) unsafe fn utf8_of<'a>(object: *mut PyObject) -> Option<&'a str> {
    // SAFETY: attached; the object keeps its text, and CPython makes UTF-8 alone.
    unsafe {
        let mut len = 0;
        let data = PyUnicode_AsUTF8AndSize(object, &mut len);
        if data.is_null() {
            PyErr_Clear();
            return None;
        }
        Some(str::from_utf8_unchecked(slice::from_raw_parts(data.cast(), len.unsigned_abs())))
    }
}

/// The outcome of a C API function that returns 0, or another number with an exception set.
pub(crate) fn done(status: c_int) -> Outcome<()> {
    if status == 0 { Ok(()) } else { Err(Fault::Raised) }
}

/// Calls `action` with the exception that is set put aside: Python code in it would take that one for its own.
///
/// # Safety
///
/// The thread is attached, before and after.
pub(crate) unsafe fn with_exception_aside<T>(action: impl FnOnce() -> T) -> T {
    let (mut kind, mut value, mut traceback) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    #[allow(deprecated, reason = "PyErr_GetRaisedException is new in 3.12")]
    // SAFETY: attached. The fetched exception is put back.
    unsafe {
        pyo3_ffi::PyErr_Fetch(&mut kind, &mut value, &mut traceback);
        let result = action();
        pyo3_ffi::PyErr_Restore(kind, value, traceback);
        result
    }
}
