//! Python types whose objects hold a value of the host's.

use crate::api::fault::Outcome;
use crate::api::reference::{Ref, with_exception_aside};
use pyo3_ffi::{
    Py_DECREF, Py_TPFLAGS_DEFAULT, Py_TPFLAGS_DISALLOW_INSTANTIATION, Py_TPFLAGS_HAVE_GC, Py_TYPE,
    Py_tp_free, PyObject, PyObject_GC_UnTrack, PyType_FromSpec, PyType_GenericAlloc,
    PyType_GetSlot, PyType_HasFeature, PyType_Slot, PyType_Spec, PyTypeObject, freefunc,
};
use std::ffi::{CStr, c_int, c_ulong, c_void};
use std::mem::{offset_of, transmute};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// An object that holds a `T`. The value is dropped with the object.
#[repr(C)]
struct Carrier<T> {
    object: PyObject,
    carried: T,
}

/// A type that is made with its first object. It lives as long as the interpreter.
pub(crate) struct CarrierType {
    made: AtomicPtr<PyTypeObject>,
    /// Flags beside those that all have.
    flags: c_ulong,
}

impl CarrierType {
    pub(crate) const fn new() -> Self {
        Self::with_flags(0)
    }

    /// A type with more flags (`Py_TPFLAGS_…`).
    pub(crate) const fn with_flags(flags: c_ulong) -> Self {
        Self { made: AtomicPtr::new(ptr::null_mut()), flags }
    }

    /// A new object that holds `carried`.
    ///
    /// # Safety
    ///
    /// Attached. All objects of one type hold the same `T`. `slots` are pairs of a
    /// slot's number and a fitting function or table, without the destructor.
    pub(crate) unsafe fn make<T>(
        &self,
        name: &'static CStr,
        slots: &[(c_int, *mut c_void)],
        carried: T,
    ) -> Outcome<Ref> {
        // SAFETY: by contract.
        unsafe { carrier(self.get::<T>(name, slots)?, carried) }
    }

    /// The type, once an object of it was made.
    pub(crate) fn made(&self) -> Option<*mut PyTypeObject> {
        let made = self.made.load(Ordering::Acquire);
        (!made.is_null()).then_some(made)
    }

    /// Whether an object was made by [`CarrierType::make`] of this type.
    ///
    /// # Safety
    ///
    /// Attached, and the object is alive.
    pub(crate) unsafe fn is_of(&self, object: *mut PyObject) -> bool {
        // SAFETY: by contract.
        ptr::eq(unsafe { Py_TYPE(object) }, self.made.load(Ordering::Acquire))
    }

    /// The type, which is made unless it was.
    ///
    /// # Safety
    ///
    /// As [`CarrierType::make`].
    pub(crate) unsafe fn get<T>(
        &self,
        name: &'static CStr,
        slots: &[(c_int, *mut c_void)],
    ) -> Outcome<*mut PyTypeObject> {
        // The GIL is held: nobody else makes the type meanwhile.
        let made = self.made.load(Ordering::Acquire);
        if !made.is_null() {
            return Ok(made);
        }
        let destructor = (pyo3_ffi::Py_tp_dealloc, deallocate::<T> as *mut c_void);
        let mut slots: Vec<PyType_Slot> = slots
            .iter()
            .chain([&destructor, &(0, ptr::null_mut())])
            .map(|&(slot, function)| PyType_Slot { slot, pfunc: function })
            .collect();
        let mut spec = PyType_Spec {
            name: name.as_ptr(),
            basicsize: size_of::<Carrier<T>>() as c_int,
            itemsize: 0,
            flags: (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION | self.flags) as _,
            slots: slots.as_mut_ptr(),
        };
        // SAFETY: attached; the specification is complete, and copied but for the static name.
        let made = unsafe { Ref::owned(PyType_FromSpec(&mut spec)) }?.into_handle();
        self.made.store(made.cast(), Ordering::Release);
        Ok(made.cast())
    }
}

/// A new object of a type, or of one derived from it, that holds `carried`.
///
/// # Safety
///
/// Attached. All objects of the type hold a `T`.
pub(crate) unsafe fn carrier<T>(kind: *mut PyTypeObject, carried: T) -> Outcome<Ref> {
    // SAFETY: attached; the object is new, and `carried` moves to where its type expects it, before anybody else can see it.
    unsafe {
        let object = Ref::owned(PyType_GenericAlloc(kind, 0))?;
        (&raw mut (*object.as_ptr().cast::<Carrier<T>>()).carried).write(carried);
        Ok(object)
    }
}

/// Where an object has its value, in bytes.
pub(crate) const fn offset_of_carried<T>() -> usize {
    offset_of!(Carrier<T>, carried)
}

/// The value that an object holds.
///
/// # Safety
///
/// The object is alive, and was made with this `T`.
pub(crate) unsafe fn carried<'object, T>(object: *mut PyObject) -> &'object T {
    // SAFETY: by contract.
    unsafe { &(*object.cast::<Carrier<T>>()).carried }
}

/// `tp_dealloc`, also called by that of classes that Python derives. An object of a heap type owns a reference to its type (since
/// Python 3.8).
unsafe extern "C" fn deallocate<T>(object: *mut PyObject) {
    // SAFETY: the last reference is gone. The type's own `tp_free` fits what has allocated the object.
    unsafe {
        let kind = Py_TYPE(object);
        if PyType_HasFeature(kind, Py_TPFLAGS_HAVE_GC) != 0 {
            PyObject_GC_UnTrack(object.cast());
        }
        ptr::drop_in_place(&raw mut (*object.cast::<Carrier<T>>()).carried);
        let free = PyType_GetSlot(kind, Py_tp_free);
        transmute::<*mut c_void, freefunc>(free)(object.cast());
        Py_DECREF(kind.cast());
    }
}

/// A context of the host's, and the function that releases it.
pub(crate) struct Lent {
    pub(crate) context: *mut c_void,
    pub(crate) drop: unsafe extern "C" fn(*mut c_void),
}

impl Drop for Lent {
    /// Puts an exception aside that is being raised: the host's code may call Python.
    fn drop(&mut self) {
        // SAFETY: the host gave the context with this function, to be called once. The owner is dropped by an attached
        // thread.
        unsafe { with_exception_aside(|| (self.drop)(self.context)) };
    }
}
