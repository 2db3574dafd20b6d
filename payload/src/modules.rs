//! The Python modules that live in the payload, importable as `_hydrozoa.NAME`.

use crate::collections;
use crate::fault::{Fault, Outcome};
use crate::reference::Ref;
use crate::table::Text;
use pyo3_ffi::{
    Py_CompileString, Py_file_input, PyBUF_READ, PyBytes_FromStringAndSize, PyDict_New,
    PyDict_SetItem, PyDict_SetItemString, PyErr_WriteUnraisable, PyEval_EvalCode,
    PyEval_GetBuiltins, PyImport_GetModule, PyImport_Import, PyImport_ImportModule,
    PyMemoryView_FromMemory, PyObject, PyObject_CallFunctionObjArgs, PyObject_CallMethodNoArgs,
    PyObject_GetAttrString, PyObject_SetItem, PyUnicode_DecodeFSDefaultAndSize,
};

use std::ffi::CStr;
use std::ptr;

// `const MODULES: &[(&str, &[u8])]`: name and source.
include!(concat!(env!("OUT_DIR"), "/modules.rs"));

/// Makes the package importable.
const IMPORTER: &str = concat!(include_str!("importer.py"), "\0");

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
        let names = [(c"SOURCES", &sources), (c"collect_later", &collections::later()?)];
        run(IMPORTER, c"_hydrozoa/importer.py", &names)
    }
}

/// The table of the module `signal` is filled when the module is initialised. SIGINT gets a handler there that raises
/// KeyboardInterrupt. The host refuses that handler, since signals are the application's; the table should say so.
const SIGNALS: &str = "
import _signal
try:
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
except OSError:
    pass  # The application has installed a handler just now.
\0";

/// An isolated configuration has the limit fixed, and up to 3.11 no field for it.
const DIGITS: &str = "
import sys
limit = sys._xoptions.get('int_max_str_digits')
if limit is not None:
    sys.set_int_max_str_digits(int(limit))
\0";

/// Calls the function `end` of one of our modules, if the program has imported `cause`. An exception is printed.
///
/// # Safety
///
/// Attached, before Python is finalized.
pub(crate) unsafe fn call_at_the_end(module: &str, cause: &str) {
    // SAFETY: attached, as the caller vouches; the objects are alive during the calls.
    let ended = unsafe {
        Ref::text(cause.as_bytes()).and_then(|cause| match PyImport_GetModule(cause.as_ptr()) {
            cause if cause.is_null() => Ok(()),
            cause => {
                let _cause = Ref::owned(cause)?;
                let (name, end) = (Ref::text(module.as_bytes())?, Ref::text(b"end")?);
                let module = Ref::owned(PyImport_Import(name.as_ptr()))?;
                Ref::owned(PyObject_CallMethodNoArgs(module.as_ptr(), end.as_ptr())).map(drop)
            }
        })
    };
    if ended.is_err() {
        // SAFETY: attached; without an object the text has none.
        unsafe { PyErr_WriteUnraisable(ptr::null_mut()) };
    }
}

/// Has `-X int_max_str_digits` its effect.
///
/// # Safety
///
/// Attached.
pub(crate) unsafe fn limit_digits() -> Outcome<()> {
    // SAFETY: by contract.
    unsafe { run(DIGITS, c"_hydrozoa/digits.py", &[]) }
}

/// Has Python's table of signals say that SIGINT is not Python's.
///
/// # Safety
///
/// Attached, on Python's main thread.
pub(crate) unsafe fn leave_signals() -> Outcome<()> {
    // SAFETY: by contract.
    unsafe { run(SIGNALS, c"_hydrozoa/signals.py", &[]) }
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
        let os = Ref::owned(PyImport_ImportModule(c"os".as_ptr()))?;
        let environ = Ref::owned(PyObject_GetAttrString(os.as_ptr(), c"environ".as_ptr()))?;
        let data = Ref::owned(PyObject_GetAttrString(environ.as_ptr(), c"_data".as_ptr()))?;
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
        let imports = Ref::owned(PyImport_ImportModule(c"_hydrozoa.imports".as_ptr()))?;
        let install = Ref::owned(PyObject_GetAttrString(imports.as_ptr(), c"install".as_ptr()))?;
        let (mode, profile) = (Ref::text(mode.bytes())?, Ref::text(profile.bytes())?);
        let folder = folder.bytes();
        let folder = Ref::owned(PyUnicode_DecodeFSDefaultAndSize(
            folder.as_ptr().cast(),
            folder.len() as isize,
        ))?;
        Ref::owned(PyObject_CallFunctionObjArgs(
            install.as_ptr(),
            mode.as_ptr(),
            profile.as_ptr(),
            folder.as_ptr(),
            ptr::null_mut::<PyObject>(),
        ))
        .map(drop)
    }
}

fn done(status: std::ffi::c_int) -> Outcome<()> {
    if status == 0 { Ok(()) } else { Err(Fault::Raised) }
}
