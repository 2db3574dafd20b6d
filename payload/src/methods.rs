//! Functions of ours in front of CPython's built-in ones.
//!
//! CPython describes a built-in function by a `PyMethodDef`, which names the C function. It lies in the interpreter's replica of
//! libpython, so that a change concerns this interpreter alone. Python code sees the same function object as before: its name, its
//! signature and its identity are CPython's.

use pyo3_ffi::{
    METH_FASTCALL, METH_KEYWORDS, METH_NOARGS, PyCFunction, PyCFunction_Check,
    PyCFunctionFastWithKeywords, PyCFunctionObject, PyDict_GetItemString, PyEval_GetGlobals,
    PyMethodDef, PyObject, PyTypeObject, PyUnicode_Check, PyUnicode_CompareWithASCIIString,
};
use std::ffi::CStr;
use std::ptr;
use std::sync::OnceLock;

/// A built-in function that takes an array of arguments.
pub(crate) struct Function {
    /// A function without names ignores them.
    original: PyCFunctionFastWithKeywords,
    /// Whether it takes keyword arguments.
    has_names: bool,
}

/// Where a function of ours finds CPython's.
pub(crate) type Place<T> = OnceLock<T>;

impl Function {
    /// Has a built-in function call `ours`. A function of another form or name stays as it is.
    ///
    /// # Safety
    ///
    /// Attached, and nothing else has run in the interpreter. `function` is an object or null. `ours` passes what it does not
    /// answer on to the function in `place`.
    pub(crate) unsafe fn replace(
        function: *mut PyObject,
        name: &CStr,
        place: &Place<Self>,
        ours: PyCFunctionFastWithKeywords,
    ) {
        // SAFETY: a built-in function and its description live as long as the interpreter, and nobody reads the description meanwhile.
        unsafe {
            if function.is_null() || PyCFunction_Check(function) == 0 {
                return;
            }
            let method = (*function.cast::<PyCFunctionObject>()).m_ml;
            let flags = (*method).ml_flags;
            if CStr::from_ptr((*method).ml_name) != name || flags & !METH_KEYWORDS != METH_FASTCALL
            {
                return;
            }
            let original = Self {
                original: (*method).ml_meth.PyCFunctionFastWithKeywords,
                has_names: flags & METH_KEYWORDS != 0,
            };
            if place.set(original).is_ok() {
                (*method).ml_meth.PyCFunctionFastWithKeywords = ours;
            }
        }
    }

    /// Whether a call has so many arguments, all by position.
    pub(crate) fn is_call_of(&self, expected: isize, count: isize, names: *mut PyObject) -> bool {
        count == expected && (!self.has_names || names.is_null())
    }

    /// What CPython's function returns.
    ///
    /// # Safety
    ///
    /// As for CPython's function: attached, with that many arguments.
    pub(crate) unsafe fn call(
        &self,
        module: *mut PyObject,
        arguments: *const *mut PyObject,
        count: isize,
        names: *mut PyObject,
    ) -> *mut PyObject {
        // SAFETY: by contract.
        unsafe { (self.original)(module, arguments, count, names) }
    }
}

/// Has a method without arguments of one of CPython's own types call `ours`, and puts CPython's into `place`.
///
/// # Safety
///
/// As for [`Function::replace`]. `kind` is one of CPython's static types.
pub(crate) unsafe fn replace_method(
    kind: *mut PyTypeObject,
    name: &CStr,
    place: &Place<PyCFunction>,
    ours: PyCFunction,
) {
    // SAFETY: a type's methods are an array that ends with a nameless one. They live as long as the interpreter.
    unsafe {
        let mut method: *mut PyMethodDef = (*kind).tp_methods;
        while !method.is_null() && !(*method).ml_name.is_null() {
            if CStr::from_ptr((*method).ml_name) == name && (*method).ml_flags == METH_NOARGS {
                if place.set((*method).ml_meth.PyCFunction).is_ok() {
                    (*method).ml_meth.PyCFunction = ours;
                }
                return;
            }
            method = method.add(1);
        }
    }
}

/// The global names of the Python function that runs, if it belongs to a module of this name. Otherwise null.
///
/// # Safety
///
/// Attached. The reference is borrowed.
pub(crate) unsafe fn globals_of_caller(module: &CStr) -> *mut PyObject {
    // SAFETY: attached; the references are borrowed for moments.
    unsafe {
        let globals = PyEval_GetGlobals();
        if globals.is_null() {
            return ptr::null_mut();
        }
        let name = PyDict_GetItemString(globals, c"__name__".as_ptr());
        let is_its = !name.is_null()
            && PyUnicode_Check(name) != 0
            && PyUnicode_CompareWithASCIIString(name, module.as_ptr()) == 0;
        if is_its { globals } else { ptr::null_mut() }
    }
}
