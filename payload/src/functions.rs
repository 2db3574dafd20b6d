//! Host functions as Python callables.

use crate::fault::Outcome;
use crate::reference::Ref;
use crate::report::guarded;
use crate::table::{Callback, Handle, Status, Text};
use crate::types::{CarrierType, Lent, carried, offset_of_carried};
use pyo3_ffi::{
    Py_READONLY, Py_T_PYSSIZET, Py_TPFLAGS_HAVE_VECTORCALL, Py_tp_call, Py_tp_getset,
    Py_tp_members, Py_tp_repr, PyErr_Occurred, PyErr_SetString, PyExc_SystemError, PyGetSetDef,
    PyMemberDef, PyObject, PyUnicode_FromFormat, PyVectorcall_Call, PyVectorcall_NARGS,
    vectorcallfunc,
};
use std::ffi::c_void;
use std::mem::offset_of;
use std::ptr;

/// The host's function behind a callable.
#[repr(C)]
struct Function {
    /// What CPython calls (PEP 590).
    vectorcall: vectorcallfunc,
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
    static TYPE: CarrierType = CarrierType::with_flags(Py_TPFLAGS_HAVE_VECTORCALL);
    // SAFETY: the host is attached, and passes a valid callback, view and place.
    unsafe {
        let callback = *callback;
        // From here on the callback is dropped in every case.
        let lent = Lent { context: callback.context, drop: callback.drop };
        guarded(sink, move || {
            let name = Ref::text(name.bytes())?;
            let function = Function { vectorcall: call, callback, name, _lent: lent };
            let slots = [
                (Py_tp_call, PyVectorcall_Call as *mut c_void),
                (Py_tp_members, (&raw mut MEMBERS).cast()),
                (Py_tp_repr, represent as *mut c_void),
                (Py_tp_getset, (&raw mut ATTRIBUTES).cast()),
            ];
            *out = TYPE.make(c"_hydrozoa.Function", &slots, function)?.into_handle();
            Ok(())
        })
    }
}

/// Where an object has its function for calls, and the end of the list. CPython wants a mutable list, and does not change it.
static mut MEMBERS: [PyMemberDef; 2] = [
    PyMemberDef {
        name: c"__vectorcalloffset__".as_ptr(),
        type_code: Py_T_PYSSIZET,
        offset: offset_of_carried::<Function>() as isize
            + offset_of!(Function, vectorcall) as isize,
        flags: Py_READONLY,
        doc: ptr::null(),
    },
    // SAFETY: null pointers and zeroes end the list.
    unsafe { std::mem::zeroed() },
];

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
    arguments: *const *mut PyObject,
    count: usize,
    names: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: called attached, on an object of the type above, with live arguments.
    unsafe {
        let callback = carried::<Function>(function).callback;
        let count = PyVectorcall_NARGS(count).cast_unsigned();
        let result = (callback.call)(callback.context, arguments.cast(), count, names.cast());
        if result.is_null() && PyErr_Occurred().is_null() {
            let reason = c"the host function could not be called: the interpreter is ending";
            PyErr_SetString(PyExc_SystemError, reason.as_ptr());
        }
        result.cast()
    }
}

fn new_reference(object: Outcome<Ref>) -> *mut PyObject {
    object.map_or(ptr::null_mut(), |object| object.into_handle().cast())
}
