//! Code that the standard library generates: one interpreter compiles it, and the others read what that has made.
//!
//! `dataclasses` writes the methods of each class as text and has `exec` compile it. `import torch, torchvision` does so 1,380
//! times, which is a tenth of its processor time. So `exec` asks the host for the marshalled code of such a text first, as an import asks
//! for a file `.pyc`. The code object is equal to the one that the text gives, and belongs to this interpreter alone.
//!
//! It does so for no other caller: a text of a program may have the compiler warn, and what programs generate has no end.

use crate::HOST;
use crate::fault::{Fault, Outcome};
use crate::methods::{Function, Place, globals_of_caller};
use crate::reference::Ref;
use crate::table::{HostTable, Text};
use pyo3_ffi::{
    Py_CompileStringExFlags, Py_file_input, PyBytes_AsStringAndSize, PyCompilerFlags,
    PyDict_GetItemString, PyErr_Clear, PyEval_GetBuiltins, PyImport_GetMagicNumber,
    PyMarshal_ReadObjectFromString, PyMarshal_WriteObjectToString, PyObject,
    PyUnicode_AsUTF8AndSize, PyUnicode_Check,
};
use std::ffi::{CStr, c_char, c_int};
use std::mem;
use std::ptr;
use std::sync::OnceLock;

/// CPython's `exec`.
static EXEC: Place<Function> = Place::new();

/// The magic number of bytecode (`.pyc` files have it) and the code of [`SAMPLE`], which tell this compiler from others.
static COMPILER: OnceLock<Vec<u8>> = OnceLock::new();

/// Has what `-O`, `-OO` and `-X no_debug_ranges` make a difference of.
const SAMPLE: &CStr = c"def f(x, y):\n \"d\"\n assert x\n return [x for x in y(x)]\n";

/// The file name that `exec` gives to a text.
const FILE: &CStr = c"<string>";

/// How `exec` compiles a string (Include/cpython/compile.h): `PyCF_SOURCE_IS_UTF8` and `PyCF_IGNORE_COOKIE`.
const OF_A_STRING: c_int = 0x100 | 0x800;

/// The form of marshalled code that does not depend on how often objects are referred to.
const PLAIN: c_int = 2;

/// The newest form that all versions have (`Py_MARSHAL_VERSION`). It is smaller.
const COMPACT: c_int = 4;

unsafe extern "C" {
    /// Adds the flags that code inherits from the frame that runs, and says whether there are any.
    fn PyEval_MergeCompilerFlags(flags: *mut PyCompilerFlags) -> c_int;
}

/// Has `exec` do so.
///
/// # Safety
///
/// The thread is attached, and no Python code has run in another thread.
pub(crate) unsafe fn share() {
    // SAFETY: by contract.
    unsafe {
        let exec = PyDict_GetItemString(PyEval_GetBuiltins(), c"exec".as_ptr());
        Function::replace(exec, c"exec", &EXEC, exec_shared);
    }
}

/// `exec`. A text of `dataclasses` is replaced by its code.
unsafe extern "C" fn exec_shared(
    module: *mut PyObject,
    arguments: *const *mut PyObject,
    count: isize,
    names: *mut PyObject,
) -> *mut PyObject {
    let exec = EXEC.get().expect("it was set before");
    // SAFETY: CPython calls it attached, with that many arguments.
    unsafe {
        if exec.is_call_of(3, count, names) {
            let text = *arguments;
            if PyUnicode_Check(text) != 0
                && is_of_dataclasses()
                && let Some(code) = code(text)
            {
                let arguments = [code.as_ptr(), *arguments.add(1), *arguments.add(2)];
                return exec.call(module, arguments.as_ptr(), 3, names);
            }
        }
        exec.call(module, arguments, count, names)
    }
}

/// Whether a function of `dataclasses` runs, and the code of its texts inherits nothing from it (`from __future__ import ...`).
///
/// # Safety
///
/// Attached.
unsafe fn is_of_dataclasses() -> bool {
    // SAFETY: attached; flags may be all zeros.
    unsafe {
        let mut flags: PyCompilerFlags = mem::zeroed();
        !globals_of_caller(c"dataclasses").is_null() && PyEval_MergeCompilerFlags(&mut flags) == 0
    }
}

/// The code of a text. `None` if the text is to be compiled by `exec` itself, which raises what there is to raise.
///
/// # Safety
///
/// Attached; `text` is a string.
unsafe fn code(text: *mut PyObject) -> Option<Ref> {
    let host = HOST.get()?;
    // SAFETY: attached. What the host has lives as long as the process.
    let code = unsafe { compiler().and_then(|compiler| found_or_compiled(host, compiler, text)) };
    if code.is_err() {
        // SAFETY: attached.
        unsafe { PyErr_Clear() };
    }
    code.ok()
}

/// The mark of this compiler.
///
/// # Safety
///
/// Attached.
unsafe fn compiler() -> Outcome<&'static [u8]> {
    if COMPILER.get().is_none() {
        // SAFETY: attached.
        let (magic, code) =
            unsafe { (PyImport_GetMagicNumber(), marshalled(&compiled(SAMPLE.as_ptr())?, PLAIN)?) };
        // Another thread's is equal.
        let _ = COMPILER.set([&magic.to_le_bytes()[..], &code].concat());
    }
    Ok(COMPILER.get().map(Vec::as_slice).unwrap_or_default())
}

/// # Safety
///
/// As for [`code`].
unsafe fn found_or_compiled(
    host: &HostTable,
    compiler: &[u8],
    text: *mut PyObject,
) -> Outcome<Ref> {
    // SAFETY: attached; the text's characters live as long as it does, and end with a NUL.
    unsafe {
        let mut length = 0;
        let characters = PyUnicode_AsUTF8AndSize(text, &mut length);
        if characters.is_null() {
            return Err(Fault::Raised);
        }
        let view = |data: *const u8, len| Text { data, len };
        let compiler = view(compiler.as_ptr(), compiler.len());
        let source = view(characters.cast(), length as usize);
        let kept = (host.find_code)(compiler, source);
        if kept.len != 0 {
            return Ref::owned(PyMarshal_ReadObjectFromString(kept.data.cast(), kept.len as isize));
        }
        if CStr::from_ptr(characters).count_bytes() != length as usize {
            // `exec` refuses it.
            return Err(Fault::Raised);
        }
        let code = compiled(characters)?;
        let bytes = marshalled(&code, COMPACT)?;
        (host.keep_code)(compiler, source, view(bytes.as_ptr(), bytes.len()));
        Ok(code)
    }
}

/// The code of a text, as `exec` compiles it.
///
/// # Safety
///
/// Attached; the text ends with a NUL.
unsafe fn compiled(text: *const c_char) -> Outcome<Ref> {
    // SAFETY: attached; the flags may be all zeros, and live during the call. -1 is the interpreter's own optimization.
    unsafe {
        let mut flags: PyCompilerFlags = mem::zeroed();
        flags.cf_flags = OF_A_STRING;
        Ref::owned(Py_CompileStringExFlags(text, FILE.as_ptr(), Py_file_input, &mut flags, -1))
    }
}

/// The marshalled form of an object.
///
/// # Safety
///
/// Attached.
unsafe fn marshalled(object: &Ref, form: c_int) -> Outcome<Vec<u8>> {
    // SAFETY: attached; the bytes live as long as their object.
    unsafe {
        let bytes = Ref::owned(PyMarshal_WriteObjectToString(object.as_ptr(), form))?;
        let (mut data, mut length): (*mut c_char, isize) = (ptr::null_mut(), 0);
        if PyBytes_AsStringAndSize(bytes.as_ptr(), &mut data, &mut length) != 0 {
            return Err(Fault::Raised);
        }
        Ok(std::slice::from_raw_parts(data.cast::<u8>(), length as usize).to_vec())
    }
}
