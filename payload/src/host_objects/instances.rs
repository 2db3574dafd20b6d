//! Instances of classes that the host defines.
//!
//! A class is made by `type(name, bases, namespace)`, as a class statement makes it. Its base is the type of this module,
//! whose objects hold one context of the host's. Only [`instance`] makes objects of it: the type and its subclasses inherit
//! no `__new__`.

use crate::api::carriers::{CarrierType, Lent, carried, carrier};
use crate::api::fault::{Fault, Outcome};
use crate::api::reference::Ref;
use crate::exceptions::report::returning;
use crate::table::{Handle, Status};
use pyo3_ffi::{
    Py_TPFLAGS_BASETYPE, Py_TPFLAGS_HAVE_GC, Py_TYPE, Py_tp_traverse, PyErr_SetString,
    PyExc_TypeError, PyObject, PyType_Check, PyType_IsSubtype, PyTypeObject, visitproc,
};
use std::ffi::{c_int, c_void};
use std::ptr;

/// The base of the classes. Its objects hold an `Option<Lent>`, which is `None` only while they are made: CPython fills new
/// objects with zeroes.
static BASE: CarrierType = CarrierType::with_flags(Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC);

/// See [`crate::table::PayloadTable::instance_type`].
pub(crate) unsafe extern "C" fn instance_type(out: *mut Handle, sink: *mut c_void) -> Status {
    // SAFETY: the host is attached, and passes a valid place.
    unsafe { returning(out, sink, || Ref::borrowed(base()?.cast())) }
}

/// # Safety
///
/// Attached.
unsafe fn base() -> Outcome<*mut PyTypeObject> {
    let slots = [(Py_tp_traverse, traverse as *mut c_void)];
    // SAFETY: attached; all objects of the type hold the same.
    unsafe { BASE.get::<Option<Lent>>(c"_hydrozoa.Instance", &slots) }
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
    // SAFETY: the host is attached, and passes a live object and a valid place.
    unsafe {
        returning(out, sink, move || {
            let class = class.cast::<PyObject>();
            if PyType_Check(class) == 0 || PyType_IsSubtype(class.cast(), base()?) == 0 {
                let reason =
                    c"an instance was asked for, and this is not a class of the application";
                PyErr_SetString(PyExc_TypeError, reason.as_ptr());
                return Err(Fault::Raised);
            }
            carrier(class.cast(), Some(lent))
        })
    }
}

/// See [`crate::table::PayloadTable::held`].
pub(crate) unsafe extern "C" fn held(object: Handle) -> *mut c_void {
    let object = object.cast::<PyObject>();
    // SAFETY: the host is attached, and passes a live object. Objects of the type and of types derived from it begin alike.
    unsafe {
        match BASE.made() {
            Some(base) if PyType_IsSubtype(Py_TYPE(object), base) != 0 => {
                carried::<Option<Lent>>(object)
                    .as_ref()
                    .map_or(ptr::null_mut(), |lent| lent.context)
            }
            _ => ptr::null_mut(),
        }
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
