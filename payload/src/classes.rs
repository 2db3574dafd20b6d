//! Instances of classes that the host defines.
//!
//! A class is made by `type(name, bases, namespace)`, as a class statement makes it. Its base is the type of this module,
//! whose objects hold one context of the host's. Only [`instance`] makes objects of it: the type and its subclasses inherit
//! no `__new__`.

use crate::fault::{Fault, Outcome};
use crate::reference::Ref;
use crate::report::guarded;
use crate::table::{Handle, Status};
use crate::types::Lent;
use pyo3_ffi::{
    Py_DECREF, Py_TPFLAGS_BASETYPE, Py_TPFLAGS_DEFAULT, Py_TPFLAGS_DISALLOW_INSTANTIATION,
    Py_TPFLAGS_HAVE_GC, Py_TYPE, Py_tp_dealloc, Py_tp_free, Py_tp_traverse, PyErr_SetString,
    PyExc_TypeError, PyObject, PyObject_GC_UnTrack, PyType_Check, PyType_FromSpec,
    PyType_GenericAlloc, PyType_GetSlot, PyType_IsSubtype, PyType_Slot, PyType_Spec, PyTypeObject,
    freefunc, visitproc,
};
use std::ffi::{c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// An object that holds a context of the host's.
#[repr(C)]
struct Instance {
    object: PyObject,
    /// `None` only while the object is made: CPython fills new objects with zeroes.
    lent: Option<Lent>,
}

/// The base of the classes. It lives as long as the interpreter.
static BASE: AtomicPtr<PyTypeObject> = AtomicPtr::new(ptr::null_mut());

/// See [`crate::table::PayloadTable::instance_type`].
pub(crate) unsafe extern "C" fn instance_type(out: *mut Handle, sink: *mut c_void) -> Status {
    // SAFETY: the host is attached, and passes a valid place.
    unsafe {
        guarded(sink, || {
            *out = Ref::borrowed(base()?.cast())?.into_handle();
            Ok(())
        })
    }
}

/// # Safety
///
/// Attached.
unsafe fn base() -> Outcome<*mut PyTypeObject> {
    // The GIL is held: nobody else makes the type meanwhile.
    let made = BASE.load(Ordering::Acquire);
    if !made.is_null() {
        return Ok(made);
    }
    let slot = |slot, function| PyType_Slot { slot, pfunc: function };
    let mut slots = [
        slot(Py_tp_dealloc, deallocate as *mut c_void),
        slot(Py_tp_traverse, traverse as *mut c_void),
        slot(0, ptr::null_mut()),
    ];
    let flags = Py_TPFLAGS_DEFAULT
        | Py_TPFLAGS_BASETYPE
        | Py_TPFLAGS_HAVE_GC
        | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    let mut spec = PyType_Spec {
        name: c"_hydrozoa.Instance".as_ptr(),
        basicsize: size_of::<Instance>() as c_int,
        itemsize: 0,
        flags: flags as _,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: attached; the specification is complete, and copied but for the static name.
    let made = unsafe { Ref::owned(PyType_FromSpec(&mut spec)) }?.into_handle();
    BASE.store(made.cast(), Ordering::Release);
    Ok(made.cast())
}

/// See [`crate::table::PayloadTable::instance`].
pub(crate) unsafe extern "C" fn instance(
    class: Handle,
    context: *mut c_void,
    drop: unsafe extern "C" fn(*mut c_void),
    out: *mut Handle,
    sink: *mut c_void,
) -> Status {
    // From here on the context is dropped in every case.
    let lent = Lent { context, drop };
    // SAFETY: the host is attached, and passes a live object and a valid place. The object is new: nobody else sees it
    // before it has its context.
    unsafe {
        guarded(sink, move || {
            let base = base()?;
            let class = class.cast::<PyObject>();
            if PyType_Check(class) == 0 || PyType_IsSubtype(class.cast(), base) == 0 {
                let reason = c"an instance was asked for, and this is no class of the application";
                PyErr_SetString(PyExc_TypeError, reason.as_ptr());
                return Err(Fault::Raised);
            }
            let object = Ref::owned(PyType_GenericAlloc(class.cast(), 0))?;
            (&raw mut (*object.as_ptr().cast::<Instance>()).lent).write(Some(lent));
            *out = object.into_handle();
            Ok(())
        })
    }
}

/// See [`crate::table::PayloadTable::held`].
pub(crate) unsafe extern "C" fn held(object: Handle) -> *mut c_void {
    let base = BASE.load(Ordering::Acquire);
    // SAFETY: the host is attached, and passes a live object. Objects of the type and of types derived from it begin alike.
    unsafe {
        if base.is_null() || PyType_IsSubtype(Py_TYPE(object.cast()), base) == 0 {
            return ptr::null_mut();
        }
        let lent = &(*object.cast::<Instance>()).lent;
        lent.as_ref().map_or(ptr::null_mut(), |lent| lent.context)
    }
}

/// `tp_traverse`. An object of a heap type visits its type (since Python 3.9).
unsafe extern "C" fn traverse(
    object: *mut PyObject,
    visit: visitproc,
    context: *mut c_void,
) -> c_int {
    // SAFETY: called by the collector, on an object of the type.
    unsafe { visit(Py_TYPE(object).cast(), context) }
}

/// `tp_dealloc`, also called by that of classes that Python derives. An object of a heap type owns a reference to its type.
unsafe extern "C" fn deallocate(object: *mut PyObject) {
    // SAFETY: the last reference is gone. The type's own `tp_free` fits what has allocated the object.
    unsafe {
        PyObject_GC_UnTrack(object.cast());
        let kind = Py_TYPE(object);
        ptr::drop_in_place(&raw mut (*object.cast::<Instance>()).lent);
        let free = PyType_GetSlot(kind, Py_tp_free);
        transmute::<*mut c_void, freefunc>(free)(object.cast());
        Py_DECREF(kind.cast());
    }
}
