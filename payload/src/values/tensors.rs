//! Tensors across the boundary, by DLPack.
//!
//! The protocol: <https://dmlc.github.io/dlpack/latest/python_spec.html>. A capsule named
//! `dltensor` (or `dltensor_versioned`, since 1.0) holds the structure. A consumer that takes it over
//! renames the capsule to `used_…`, and calls the structure's deleter later.

use crate::api::carriers::{CarrierType, Lent, carried};
use crate::api::fault::{Fault, Outcome};
use crate::api::reference::Ref;
use crate::dlpack::{DLManagedTensor, DLManagedTensorVersioned, DLPackVersion, DLTensor};
use crate::exceptions::report::{guarded, returning};
use crate::table::{Handle, Status, TensorLoan};
use crate::values::arrays;
use pyo3_ffi::{
    METH_KEYWORDS, METH_NOARGS, METH_VARARGS, Py_NE, Py_None, Py_True, Py_tp_methods,
    PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New, PyCapsule_SetName,
    PyDict_GetItemString, PyErr_Clear, PyErr_ExceptionMatches, PyErr_SetString,
    PyExc_AttributeError, PyExc_BufferError, PyExc_TypeError, PyLong_AsLong, PyMethodDef,
    PyMethodDefPointer, PyObject, PyObject_RichCompareBool, PyObject_Vectorcall, PyTuple_Check,
    PyTuple_GetItem, PyTuple_Size,
};
use std::ffi::{CStr, c_int, c_void};
use std::ptr;

const PLAIN: &CStr = c"dltensor";
const USED_PLAIN: &CStr = c"used_dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const USED_VERSIONED: &CStr = c"used_dltensor_versioned";

/// See [`crate::table::PayloadTable::tensor`].
pub(crate) unsafe extern "C" fn tensor(
    object: Handle,
    out: *mut *mut c_void,
    versioned: *mut c_int,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes a live object and valid places.
    unsafe {
        guarded(sink, || {
            if let Some(managed) = arrays::export(object.cast()) {
                (*out, *versioned) = (managed.cast(), 1);
                return Ok(());
            }
            let capsule = exported(object.cast())?;
            let capsule = capsule.as_ptr();
            if PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) != 0 {
                let managed = PyCapsule_GetPointer(capsule, VERSIONED.as_ptr());
                let version = (*managed.cast::<DLManagedTensorVersioned>()).version;
                // The capsule keeps the structure, and frees it with itself.
                if version.major != DLPackVersion::THIS.major {
                    return Err(Fault::Conversion {
                        expected: "a tensor",
                        reason: format!(
                            "its DLPack version is {}.{}",
                            version.major, version.minor
                        ),
                    });
                }
                PyCapsule_SetName(capsule, USED_VERSIONED.as_ptr());
                (*out, *versioned) = (managed, 1);
            } else if PyCapsule_IsValid(capsule, PLAIN.as_ptr()) != 0 {
                let managed = PyCapsule_GetPointer(capsule, PLAIN.as_ptr());
                PyCapsule_SetName(capsule, USED_PLAIN.as_ptr());
                (*out, *versioned) = (managed, 0);
            } else {
                return Err(Fault::Conversion {
                    expected: "a tensor",
                    reason: "its __dlpack__ gave no unused DLPack capsule".to_owned(),
                });
            }
            Ok(())
        })
    }
}

/// `object.__dlpack__(stream=None, max_version=(1, 0))`, or without arguments if the object does not
/// take the second (no library did before 2024).
///
/// The host uses memory on a GPU on the legacy default stream, which is what None means. The producer
/// has that stream wait for its work on other streams. torch's own default, -1, waits for nothing
/// (`Tensor.__dlpack__` in torch/_tensor.py).
///
/// # Safety
///
/// The thread is attached, and the object is alive.
unsafe fn exported(object: *mut PyObject) -> Outcome<Ref> {
    // SAFETY: attached; all objects are alive during the calls.
    unsafe {
        let Ok(method) = Ref::borrowed(object)?.attribute(c"__dlpack__") else {
            if PyErr_ExceptionMatches(PyExc_AttributeError) == 0 {
                return Err(Fault::Raised);
            }
            PyErr_Clear();
            return Err(Fault::Conversion {
                expected: "a tensor",
                reason: "it has no __dlpack__".to_owned(),
            });
        };
        let names = [Ref::text(b"stream"), Ref::text(b"max_version")];
        let names = Ref::tuple(2, names.into_iter())?;
        let version = pair(DLPackVersion::THIS.major as c_int, DLPackVersion::THIS.minor as c_int)?;
        let arguments = [Py_None(), version.as_ptr()];
        let capsule = PyObject_Vectorcall(method.as_ptr(), arguments.as_ptr(), 0, names.as_ptr());
        if capsule.is_null() && PyErr_ExceptionMatches(PyExc_TypeError) != 0 {
            PyErr_Clear();
            return method.call(&[]);
        }
        Ref::owned(capsule)
    }
}

/// A tuple of two integers.
///
/// # Safety
///
/// The thread is attached.
unsafe fn pair(first: c_int, second: c_int) -> Outcome<Ref> {
    // SAFETY: attached.
    unsafe { Ref::tuple(2, [first, second].into_iter().map(|number| Ref::int(number.into()))) }
}

/// Memory of the host's behind an object with `__dlpack__`.
struct Tensor {
    loan: TensorLoan,
    _lent: Lent,
}

/// The protocol's two methods. CPython wants a mutable list, and does not change it.
static mut METHODS: [PyMethodDef; 3] = [
    PyMethodDef {
        ml_name: c"__dlpack__".as_ptr(),
        ml_meth: PyMethodDefPointer { PyCFunctionWithKeywords: dlpack },
        ml_flags: METH_VARARGS | METH_KEYWORDS,
        ml_doc: ptr::null(),
    },
    PyMethodDef {
        ml_name: c"__dlpack_device__".as_ptr(),
        ml_meth: PyMethodDefPointer { PyCFunction: dlpack_device },
        ml_flags: METH_NOARGS,
        ml_doc: ptr::null(),
    },
    PyMethodDef::zeroed(),
];

/// See [`crate::table::PayloadTable::lend_tensor`].
pub(crate) unsafe extern "C" fn lend_tensor(
    loan: *const TensorLoan,
    out: *mut Handle,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes a valid loan and place.
    unsafe {
        // From here on the loan is dropped in every case.
        let tensor = Tensor::taking(*loan);
        returning(out, sink, move || tensor.carrier())
    }
}

/// See [`crate::table::PayloadTable::lend_array`].
pub(crate) unsafe extern "C" fn lend_array(
    loan: *const TensorLoan,
    tensor: *const DLTensor,
    read_only: c_int,
    out: *mut Handle,
    array: *mut c_int,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes a valid loan, the tensor that it lends, and places. The carrier keeps the
    // memory.
    unsafe {
        // From here on the loan is dropped in every case.
        let lent = Tensor::taking(*loan);
        returning(out, sink, move || {
            let carrier = lent.carrier()?;
            let made = arrays::over(&*tensor, read_only != 0, &carrier);
            *array = c_int::from(made.is_some());
            made.unwrap_or(Ok(carrier))
        })
    }
}

impl Tensor {
    fn taking(loan: TensorLoan) -> Self {
        Self { loan, _lent: Lent { context: loan.context, drop: loan.drop } }
    }

    /// # Safety
    ///
    /// Attached.
    unsafe fn carrier(self) -> Outcome<Ref> {
        static TYPE: CarrierType = CarrierType::new();
        let slots = [(Py_tp_methods, (&raw mut METHODS).cast())];
        // SAFETY: attached by contract; the table of methods fits.
        unsafe { TYPE.make(c"_hydrozoa.Tensor", &slots, self) }
    }
}

unsafe extern "C" fn dlpack_device(object: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: called attached, on an object of the type above.
    unsafe {
        let loan = carried::<Tensor>(object).loan;
        pair(loan.device_type, loan.device_id)
            .map_or(ptr::null_mut(), |device| device.into_handle().cast())
    }
}

/// `__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)`. No work of the host
/// is pending on the memory, so `stream` has nothing to wait for.
unsafe extern "C" fn dlpack(
    object: *mut PyObject,
    _arguments: *mut PyObject,
    keywords: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: called attached, on an object of the type above; `keywords` is a dict or null.
    unsafe {
        let loan = carried::<Tensor>(object).loan;
        let keyword = |name: &CStr| match keywords.is_null() {
            true => Py_None(),
            false => {
                let value = PyDict_GetItemString(keywords, name.as_ptr());
                if value.is_null() { Py_None() } else { value }
            }
        };
        if keyword(c"copy") == Py_True() {
            return refuse(c"this memory cannot be exported as a copy");
        }
        let device = keyword(c"dl_device");
        if device != Py_None() {
            let Ok(own) = pair(loan.device_type, loan.device_id) else {
                return ptr::null_mut();
            };
            match PyObject_RichCompareBool(own.as_ptr(), device, Py_NE) {
                0 => {}
                1 => return refuse(c"this memory is on another device"),
                _ => return ptr::null_mut(),
            }
        }
        let versioned = accepts_versions(keyword(c"max_version"));
        let managed = (loan.export)(loan.context, c_int::from(versioned));
        if managed.is_null() {
            return refuse(c"read-only memory needs a consumer of DLPack 1.0 or later");
        }
        let name = if versioned { VERSIONED } else { PLAIN };
        let capsule = PyCapsule_New(managed, name.as_ptr(), Some(free));
        if capsule.is_null() {
            delete(managed, name);
        }
        capsule
    }
}

/// Whether `max_version` is a tuple whose first number is at least 1.
///
/// # Safety
///
/// The thread is attached, and the object is alive.
unsafe fn accepts_versions(version: *mut PyObject) -> bool {
    // SAFETY: by contract; an item of a tuple is alive with it.
    unsafe {
        if PyTuple_Check(version) == 0 || PyTuple_Size(version) < 1 {
            return false;
        }
        let major = PyLong_AsLong(PyTuple_GetItem(version, 0));
        PyErr_Clear();
        major >= 1
    }
}

fn refuse(reason: &CStr) -> *mut PyObject {
    // SAFETY: called from a method, attached.
    unsafe { PyErr_SetString(PyExc_BufferError, reason.as_ptr()) };
    ptr::null_mut()
}

/// A capsule's destructor: frees a structure that no consumer has taken over.
unsafe extern "C" fn free(capsule: *mut PyObject) {
    // SAFETY: called attached, on a capsule made above; its name tells whether it was used.
    unsafe {
        for name in [PLAIN, VERSIONED] {
            if PyCapsule_IsValid(capsule, name.as_ptr()) != 0 {
                delete(PyCapsule_GetPointer(capsule, name.as_ptr()), name);
                return;
            }
        }
    }
}

/// # Safety
///
/// `managed` is a valid structure of the kind that the name says, and the caller does not use it any more.
unsafe fn delete(managed: *mut c_void, name: &CStr) {
    let (plain, versioned): (*mut DLManagedTensor, *mut DLManagedTensorVersioned) =
        (managed.cast(), managed.cast());
    // SAFETY: by contract.
    unsafe {
        if name == PLAIN {
            if let Some(deleter) = (*plain).deleter {
                deleter(plain);
            }
        } else if let Some(deleter) = (*versioned).deleter {
            deleter(versioned);
        }
    }
}
