//! The Python modules that live in the payload, importable as `_hydrozoa.NAME`.

use crate::api::fault::Outcome;
use crate::api::reference::{Ref, done};
use crate::table::Text;
use pyo3_ffi::{
    Py_CompileString, Py_file_input, PyBUF_READ, PyBytes_FromStringAndSize, PyDict_New,
    PyDict_SetItem, PyDict_SetItemString, PyErr_WriteUnraisable, PyEval_EvalCode,
    PyEval_GetBuiltins, PyImport_GetModule, PyMemoryView_FromMemory, PyObject_SetItem,
};
use std::ffi::CStr;
use std::ptr;

// `const MODULES: &[(&str, &[u8])]`: name and source.
include!(concat!(env!("OUT_DIR"), "/modules.rs"));

/// Makes the package importable.
const IMPORTER: &str = concat!(include_str!("own_modules.py"), "\0");

/// Makes the modules importable.
///
/// # Safety
///
/// The thread is attached.
pub(crate) unsafe fn install() -> Outcome<()> {
    // SAFETY: attached; every object is alive during the calls. The sources are static.
    unsafe {
        let sources = Ref::owned(PyDict_New())?;
        for (name, source) in MODULES {
            let name = Ref::text(name.as_bytes())?;
            // A view of the payload's read-only data, which all replicas share.
            let source = Ref::owned(PyMemoryView_FromMemory(
                source.as_ptr().cast_mut().cast(),
                source.len() as isize,
                PyBUF_READ,
            ))?;
            done(PyDict_SetItem(sources.as_ptr(), name.as_ptr(), source.as_ptr()))?;
        }
        let names = [(c"SOURCES", &sources)];
        run(IMPORTER, c"_hydrozoa/own_modules.py", &names)
    }
}

/// Lets the table of signals say that SIGINT is not Python's, and `-X int_max_str_digits` have its effect.
pub(crate) const AT_START: &str = concat!(include_str!("at_start.py"), "\0");

/// Calls the function `end` of one of our modules, if the program has imported `cause`. An exception is printed.
///
/// # Safety
///
/// Attached, before Python is finalized.
pub(crate) unsafe fn call_at_the_end(module: &CStr, cause: &CStr) {
    // SAFETY: attached, as the caller vouches; the objects are alive during the calls.
    let ended = unsafe {
        Ref::text(cause.to_bytes()).and_then(|cause| match PyImport_GetModule(cause.as_ptr()) {
            cause if cause.is_null() => Ok(()),
            cause => {
                let _cause = Ref::owned(cause)?;
                Ref::import(module)?.call_method(c"end", []).map(drop)
            }
        })
    };
    if ended.is_err() {
        // SAFETY: attached; without an object the text has none.
        unsafe { PyErr_WriteUnraisable(ptr::null_mut()) };
    }
}

/// Runs one of our programs in a namespace of its own.
///
/// # Safety
///
/// Attached. `code` ends with a NUL.
pub(crate) unsafe fn run(code: &'static str, file: &CStr, names: &[(&CStr, &Ref)]) -> Outcome<()> {
    // SAFETY: attached; every object is alive during the calls, and the code ends with a NUL.
    unsafe {
        let code =
            Ref::owned(Py_CompileString(code.as_ptr().cast(), file.as_ptr(), Py_file_input))?;
        let space = Ref::owned(PyDict_New())?;
        let builtins = PyEval_GetBuiltins();
        done(PyDict_SetItemString(space.as_ptr(), c"__builtins__".as_ptr(), builtins))?;
        for (name, value) in names {
            done(PyDict_SetItemString(space.as_ptr(), name.as_ptr(), value.as_ptr()))?;
        }
        Ref::owned(PyEval_EvalCode(code.as_ptr(), space.as_ptr(), space.as_ptr())).map(drop)
    }
}

/// Sets a variable in this interpreter's `os.environ`, without `putenv`, which would set it for the
/// whole process. `_data` is where `os._Environ` keeps the encoded pairs (Lib/os.py).
///
/// # Safety
///
/// The thread is attached.
pub(crate) unsafe fn set_variable(name: &[u8], value: &[u8]) -> Outcome<()> {
    // SAFETY: attached; every object is alive during the calls.
    unsafe {
        let bytes = |bytes: &[u8]| {
            Ref::owned(PyBytes_FromStringAndSize(bytes.as_ptr().cast(), bytes.len() as isize))
        };
        let data = Ref::import(c"os")?.attribute(c"environ")?.attribute(c"_data")?;
        let (name, value) = (bytes(name)?, bytes(value)?);
        done(PyObject_SetItem(data.as_ptr(), name.as_ptr(), value.as_ptr()))
    }
}

/// Has modules imported as the module `imports` says: in a mode, by the text of a profile, with a folder for compiled code.
///
/// # Safety
///
/// Attached, after [`install`]. The texts are valid.
pub(crate) unsafe fn install_imports([mode, profile, folder]: [Text; 3]) -> Outcome<()> {
    // SAFETY: attached; every object is alive during the calls, and so are the views.
    unsafe {
        let imports = Ref::import(c"_hydrozoa.guided_imports")?;
        let (mode, profile) = (Ref::text(mode.bytes())?, Ref::text(profile.bytes())?);
        let folder = Ref::path(folder.bytes())?;
        let arguments = [mode.as_ptr(), profile.as_ptr(), folder.as_ptr()];
        imports.call_method(c"install", arguments).map(drop)
    }
}
