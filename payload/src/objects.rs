//! Operations on any object: PyObject_* for the host.

use crate::collections;
use crate::fault::{Fault, Outcome};
use crate::reference::Ref;
use crate::report::guarded;
use crate::table::{Handle, Status, Text};
use pyo3_ffi::{
    PY_VECTORCALL_ARGUMENTS_OFFSET, Py_None, Py_XDECREF, PyErr_Occurred, PyImport_GetModule,
    PyImport_Import, PyIter_Next, PyObject, PyObject_DelItem, PyObject_GetAttr, PyObject_GetItem,
    PyObject_GetIter, PyObject_IsTrue, PyObject_Length, PyObject_Repr, PyObject_SetAttr,
    PyObject_SetItem, PyObject_Str, PyObject_Vectorcall, PyObject_VectorcallMethod, PyTuple_New,
    PyTuple_SetItem, PyUnicode_InternInPlace,
};
use std::ffi::{c_int, c_void};
use std::ptr;

/// An interned `str` for a name. Dictionaries find those by identity.
///
/// # Safety
///
/// The thread is attached, and the view is valid.
unsafe fn name_of(name: Text) -> Outcome<Ref> {
    // SAFETY: by contract; interning replaces one owned reference by another.
    unsafe {
        let mut text = Ref::text(name.bytes())?.into_handle().cast::<PyObject>();
        PyUnicode_InternInPlace(&mut text);
        Ref::owned(text)
    }
}

fn done(status: c_int) -> Outcome<()> {
    if status == 0 { Ok(()) } else { Err(Fault::Raised) }
}

/// See [`crate::table::PayloadTable::import`].
pub(crate) unsafe extern "C" fn import(name: Text, out: *mut Handle, sink: *mut c_void) -> Status {
    // SAFETY: the host is attached, and passes valid views and places.
    unsafe {
        guarded(sink, || {
            let name = name_of(name)?;
            // What has been imported is found without importlib; waits for another thread that is
            // importing it (`import_ensure_initialized`, Python/import.c). An entry of None stands
            // for what must not be imported, which PyImport_Import says.
            let known = PyImport_GetModule(name.as_ptr());
            let module = if known.is_null() || known == Py_None() {
                if !PyErr_Occurred().is_null() {
                    return Err(Fault::Raised);
                }
                Py_XDECREF(known);
                collections::seldom(|| PyImport_Import(name.as_ptr()))
            } else {
                known
            };
            *out = Ref::owned(module)?.into_handle();
            Ok(())
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
        guarded(sink, || {
            let name = name_of(name)?;
            *out = Ref::owned(PyObject_GetAttr(object.cast(), name.as_ptr()))?.into_handle();
            Ok(())
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
            let name = name_of(name)?;
            done(PyObject_SetAttr(object.cast(), name.as_ptr(), value.cast()))
        })
    }
}

/// See [`crate::table::PayloadTable::call`].
pub(crate) unsafe extern "C" fn call(
    callable: Handle,
    method: Text,
    values: *const Handle,
    positional: usize,
    names: *const Text,
    named: usize,
    out: *mut Handle,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes live objects, as many as it says, and valid views.
    unsafe {
        guarded(sink, || {
            // One place before the arguments that the callee may use (PEP 590), and one for `self`.
            let mut stack: Vec<*mut PyObject> = Vec::with_capacity(2 + positional + named);
            stack.extend([ptr::null_mut(), callable.cast()]);
            for index in 0..positional + named {
                stack.push((*values.add(index)).cast());
            }
            let keywords = match named {
                0 => None,
                count => Some(names_of(names, count)?),
            };
            let keywords = keywords.as_ref().map_or(ptr::null_mut(), Ref::as_ptr);
            let result = if method.len == 0 {
                PyObject_Vectorcall(
                    callable.cast(),
                    stack.as_ptr().add(2),
                    positional | PY_VECTORCALL_ARGUMENTS_OFFSET,
                    keywords,
                )
            } else {
                let method = name_of(method)?;
                PyObject_VectorcallMethod(
                    method.as_ptr(),
                    stack.as_ptr().add(1),
                    (1 + positional) | PY_VECTORCALL_ARGUMENTS_OFFSET,
                    keywords,
                )
            };
            *out = Ref::owned(result)?.into_handle();
            Ok(())
        })
    }
}

/// A tuple of names.
///
/// # Safety
///
/// Attached; `count` valid views.
unsafe fn names_of(names: *const Text, count: usize) -> Outcome<Ref> {
    // SAFETY: by contract; the tuple is new, and takes each name's reference over.
    unsafe {
        let tuple = Ref::owned(PyTuple_New(count as isize))?;
        for index in 0..count {
            let name = name_of(*names.add(index))?.into_handle();
            done(PyTuple_SetItem(tuple.as_ptr(), index as isize, name.cast()))?;
        }
        Ok(tuple)
    }
}

/// See [`crate::table::PayloadTable::text`].
pub(crate) unsafe extern "C" fn text(
    object: Handle,
    representation: c_int,
    out: *mut Handle,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes a live object and a valid place.
    unsafe {
        guarded(sink, || {
            let text = match representation {
                0 => PyObject_Str(object.cast()),
                _ => PyObject_Repr(object.cast()),
            };
            *out = Ref::owned(text)?.into_handle();
            Ok(())
        })
    }
}

/// See [`crate::table::PayloadTable::item`].
pub(crate) unsafe extern "C" fn item(
    object: Handle,
    key: Handle,
    out: *mut Handle,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes live objects and a valid place.
    unsafe {
        guarded(sink, || {
            *out = Ref::owned(PyObject_GetItem(object.cast(), key.cast()))?.into_handle();
            Ok(())
        })
    }
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
    unsafe {
        guarded(sink, || {
            *out = Ref::owned(PyObject_GetIter(object.cast()))?.into_handle();
            Ok(())
        })
    }
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
