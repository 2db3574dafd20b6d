//! Host functions as Python callables.

use crate::fault::Outcome;
use crate::reference::Ref;
use crate::report::guarded;
use crate::table::{Callback, Handle, Status, Text};
use crate::types::{CarrierType, Lent, carried};
use pyo3_ffi::{
    Py_tp_call, Py_tp_getset, Py_tp_repr, PyErr_Occurred, PyErr_SetString, PyExc_SystemError,
    PyGetSetDef, PyObject, PyUnicode_FromFormat,
};
use std::ffi::c_void;
use std::ptr;

/// The host's function behind a callable.
struct Function {
    callback: Callback,
    name: Ref,
    _lent: Lent,
}

/// See [`crate::table::PayloadTable::function`].
pub(crate) unsafe extern "C" fn function(
    name: Text,
    callback: *const Callback,
    out: *mut Handle,
    sink: *mut c_void,
) -> Status {
    static TYPE: CarrierType = CarrierType::new();
    // SAFETY: the host is attached, and passes a valid callback, view and place.
    unsafe {
        let callback = *callback;
        // From here on the callback is dropped in every case.
        let lent = Lent { context: callback.context, drop: callback.drop };
        guarded(sink, move || {
            let function = Function { callback, name: Ref::text(name.bytes())?, _lent: lent };
            let slots = [
                (Py_tp_call, call as *mut c_void),
                (Py_tp_repr, represent as *mut c_void),
                (Py_tp_getset, (&raw mut ATTRIBUTES).cast()),
            ];
            *out = TYPE.make(c"_hydrozoa.Function", &slots, function)?.into_handle();
            Ok(())
        })
    }
}

/// `__name__` and the end of the list. CPython wants a mutable list, and does not change it.
static mut ATTRIBUTES: [PyGetSetDef; 3] = [
    PyGetSetDef {
        name: c"__name__".as_ptr(),
        get: Some(name),
        set: None,
        doc: ptr::null(),
        closure: ptr::null_mut(),
    },
    PyGetSetDef {
        name: c"__qualname__".as_ptr(),
        get: Some(name),
        set: None,
        doc: ptr::null(),
        closure: ptr::null_mut(),
    },
    PyGetSetDef {
        name: ptr::null(),
        get: None,
        set: None,
        doc: ptr::null(),
        closure: ptr::null_mut(),
    },
];

unsafe extern "C" fn name(function: *mut PyObject, _: *mut c_void) -> *mut PyObject {
    // SAFETY: called attached, on an object of the type above.
    unsafe { new_reference(Ref::borrowed(carried::<Function>(function).name.as_ptr())) }
}

unsafe extern "C" fn represent(function: *mut PyObject) -> *mut PyObject {
    // SAFETY: called attached, on an object of the type above; `%R` takes an object.
    unsafe {
        let name = carried::<Function>(function).name.as_ptr();
        PyUnicode_FromFormat(c"<host function %R>".as_ptr(), name)
    }
}

unsafe extern "C" fn call(
    function: *mut PyObject,
    arguments: *mut PyObject,
    keywords: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: called attached, on an object of the type above, with live arguments.
    unsafe {
        let callback = carried::<Function>(function).callback;
        let result: *mut PyObject =
            (callback.call)(callback.context, arguments.cast(), keywords.cast()).cast();
        if result.is_null() && PyErr_Occurred().is_null() {
            let reason = c"the host function could not be called: the interpreter is ending";
            PyErr_SetString(PyExc_SystemError, reason.as_ptr());
        }
        result
    }
}

fn new_reference(object: Outcome<Ref>) -> *mut PyObject {
    object.map_or(ptr::null_mut(), |object| object.into_handle().cast())
}
