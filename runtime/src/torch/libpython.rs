//! The functions of an interpreter's own libpython that the adapter calls: those that take and
//! leave the GIL (CPython's C API, "Thread State and the Global Interpreter Lock"), and that warn ("Exception
//! Handling").

use std::ffi::{c_char, c_void};

use super::exported::exports;

exports! {
    /// Their addresses in one replica of libpython.
    struct LibPython, LibPythonExports, const PYTHON;
    ensure: "PyGILState_Ensure" => unsafe extern "C-unwind" fn() -> i32,
    release: "PyGILState_Release" => unsafe extern "C-unwind" fn(i32),
    acquire_thread: "PyEval_AcquireThread" => unsafe extern "C-unwind" fn(*mut c_void),
    restore_thread: "PyEval_RestoreThread" => unsafe extern "C-unwind" fn(*mut c_void),
    save_thread: "PyEval_SaveThread" => unsafe extern "C-unwind" fn() -> *mut c_void,
    delete_current: "PyThreadState_DeleteCurrent" => unsafe extern "C-unwind" fn(),
    warn: "PyErr_WarnEx" => unsafe extern "C-unwind" fn(*mut c_void, *const c_char, isize) -> i32,
    clear_error: "PyErr_Clear" => unsafe extern "C-unwind" fn(),
    runtime_warning: "PyExc_RuntimeWarning" => *const *mut c_void,
}
