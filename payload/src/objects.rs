//! Operations on any object: PyObject_* for the host.

use crate::api::fault::{Fault, Outcome};
use crate::api::interned::{name_of, names_of};
use crate::api::reference::{Ref, done};
use crate::exceptions::foreign::frame;
use crate::exceptions::report::{self, guarded, returning};
use crate::garbage::during_imports;
use crate::table::{CallArguments, Handle, Status, TaggedValue, Text};
use crate::values::arguments::ArgumentObjects;
use pyo3_ffi::{
    PY_VECTORCALL_ARGUMENTS_OFFSET, Py_None, Py_XDECREF, PyErr_Occurred, PyImport_GetModule,
    PyImport_Import, PyIter_Next, PyObject, PyObject_DelItem, PyObject_GetAttr, PyObject_GetItem,
    PyObject_GetIter, PyObject_IsTrue, PyObject_Length, PyObject_Repr, PyObject_SetAttr,
    PyObject_SetItem, PyObject_Str, PyObject_Vectorcall, PyObject_VectorcallMethod,
};
use std::ffi::{c_int, c_void};
use std::{ptr, slice};

/// See [`crate::table::PayloadTable::import`].
pub(crate) unsafe extern "C" fn import(name: Text, out: *mut Handle, sink: *mut c_void) -> Status {
    // SAFETY: the host is attached, and passes valid views and places.
    unsafe {
        returning(out, sink, || {
            let name = name_of(name)?;
            // Finds an imported module without importlib; waits for another thread that is
            // importing it (`import_ensure_initialized`, Python/import.c). An entry of None stands
            // for a module that must not be imported, and PyImport_Import says so.
            let known = PyImport_GetModule(name.as_ptr());
            if known.is_null() && !PyErr_Occurred().is_null() {
                return Err(Fault::Raised);
            }
            if !known.is_null() && known != Py_None() {
                return Ref::owned(known);
            }
            Py_XDECREF(known);
            Ref::owned(during_imports::seldom(|| PyImport_Import(name.as_ptr())))
        })
    }
}

/// See [`crate::table::PayloadTable::attribute`].
pub(crate) unsafe extern "C" fn attribute(
    object: Handle,
    name: Text,
    out: *mut Handle,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes a live object, valid views and places.
    unsafe {
        returning(out, sink, || {
            Ref::owned(PyObject_GetAttr(object.cast(), name_of(name)?.as_ptr()))
        })
    }
}

/// See [`crate::table::PayloadTable::set_attribute`].
pub(crate) unsafe extern "C" fn set_attribute(
    object: Handle,
    name: Text,
    value: Handle,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes live objects (null to delete) and a valid view.
    unsafe {
        guarded(sink, || {
            done(PyObject_SetAttr(object.cast(), name_of(name)?.as_ptr(), value.cast()))
        })
    }
}

/// See [`crate::table::PayloadTable::call`].
///
/// The way of a call that succeeds is short: nothing on it panics, so it has no `catch_unwind`, and only the call itself
/// has the frame that exceptions of C++ do not pass.
pub(crate) unsafe extern "C" fn call(
    callable: Handle,
    method: Text,
    arguments: *const CallArguments,
    out: *mut Handle,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes live objects, as many as it says, and valid views and places.
    unsafe {
        let CallArguments { values, positional, names, named } = *arguments;
        let values = slice::from_raw_parts(values, positional + named);
        match call_with(callable.cast(), method, values, positional, names, named) {
            Ok(result) => {
                *out = result.into_handle();
                Status::DONE
            }
            Err(fault) => report::failed(sink, fault),
        }
    }
}

/// # Safety
///
/// Attached. `values` has one for each positional argument and one for each name.
#[inline]
unsafe fn call_with(
    callable: *mut PyObject,
    method: Text,
    values: &[TaggedValue],
    positional: usize,
    names: *const Text,
    named: usize,
) -> Outcome<Ref> {
    // SAFETY: by contract. One place before the arguments is for the callee (PEP 590), and one for `self`.
    unsafe {
        let mut built = ArgumentObjects::new(values);
        let places = built.make()?;
        *places.add(ArgumentObjects::SKIPPED - 1) = callable;
        let keywords = match named {
            0 => None,
            count => Some(names_of(names, count)?),
        };
        let keywords = keywords.as_ref().map_or(ptr::null_mut(), Ref::as_ptr);
        let result = if method.len == 0 {
            let count = positional | PY_VECTORCALL_ARGUMENTS_OFFSET;
            let first = places.add(ArgumentObjects::SKIPPED);
            frame(callable, first, count, keywords, call_object)
        } else {
            let method = name_of(method)?;
            let count = (1 + positional) | PY_VECTORCALL_ARGUMENTS_OFFSET;
            let first = places.add(ArgumentObjects::SKIPPED - 1);
            frame(method.as_ptr(), first, count, keywords, call_method)
        };
        Ref::owned(result)
    }
}

/// `PyObject_Vectorcall`, which 3.10's library does not export.
unsafe extern "C-unwind" fn call_object(
    callable: *mut PyObject,
    arguments: *const *mut PyObject,
    count: usize,
    keywords: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: as for that function.
    unsafe { PyObject_Vectorcall(callable, arguments, count, keywords) }
}

/// `PyObject_VectorcallMethod`.
unsafe extern "C-unwind" fn call_method(
    name: *mut PyObject,
    arguments: *const *mut PyObject,
    count: usize,
    keywords: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: as for that function.
    unsafe { PyObject_VectorcallMethod(name, arguments, count, keywords) }
}

/// See [`crate::table::PayloadTable::text`].
pub(crate) unsafe extern "C" fn text(
    object: Handle,
    representation: c_int,
    out: *mut Handle,
    sink: *mut c_void,
) -> Status {
    let text = if representation == 0 { PyObject_Str } else { PyObject_Repr };
    // SAFETY: the host is attached, and passes a live object and a valid place.
    unsafe { returning(out, sink, || Ref::owned(text(object.cast()))) }
}

/// See [`crate::table::PayloadTable::item`].
pub(crate) unsafe extern "C" fn item(
    object: Handle,
    key: Handle,
    out: *mut Handle,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes live objects and a valid place.
    unsafe { returning(out, sink, || Ref::owned(PyObject_GetItem(object.cast(), key.cast()))) }
}

/// See [`crate::table::PayloadTable::set_item`].
pub(crate) unsafe extern "C" fn set_item(
    object: Handle,
    key: Handle,
    value: Handle,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes live objects (a null value to delete).
    unsafe {
        guarded(sink, || {
            done(if value.is_null() {
                PyObject_DelItem(object.cast(), key.cast())
            } else {
                PyObject_SetItem(object.cast(), key.cast(), value.cast())
            })
        })
    }
}

/// See [`crate::table::PayloadTable::length`].
pub(crate) unsafe extern "C" fn length(
    object: Handle,
    out: *mut usize,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes a live object and a valid place.
    unsafe {
        guarded(sink, || {
            let length = PyObject_Length(object.cast());
            *out = usize::try_from(length).map_err(|_| Fault::Raised)?;
            Ok(())
        })
    }
}

/// See [`crate::table::PayloadTable::iterate`].
pub(crate) unsafe extern "C" fn iterate(
    object: Handle,
    out: *mut Handle,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes a live object and a valid place.
    unsafe { returning(out, sink, || Ref::owned(PyObject_GetIter(object.cast()))) }
}

/// See [`crate::table::PayloadTable::next`].
pub(crate) unsafe extern "C" fn next(
    iterator: Handle,
    out: *mut Handle,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes a live iterator and a valid place.
    unsafe {
        guarded(sink, || {
            let item = PyIter_Next(iterator.cast());
            if item.is_null() && !PyErr_Occurred().is_null() {
                return Err(Fault::Raised);
            }
            *out = item.cast();
            Ok(())
        })
    }
}

/// See [`crate::table::PayloadTable::truth`].
pub(crate) unsafe extern "C" fn truth(
    object: Handle,
    out: *mut c_int,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes a live object and a valid place.
    unsafe {
        guarded(sink, || match PyObject_IsTrue(object.cast()) {
            -1 => Err(Fault::Raised),
            truth => {
                *out = truth;
                Ok(())
            }
        })
    }
}
