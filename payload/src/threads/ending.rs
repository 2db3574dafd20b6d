//! The last moment in which threads of Python run beside the one that ends the interpreter.
//!
//! CPython cuts them off after the functions of `atexit` (`Py_FinalizeEx`, Python/pylifecycle.c). One that writes then keeps the lock
//! of its stream, and CPython ends the process if it cannot flush `sys.stdout` and `sys.stderr` (`_enter_buffered_busy`,
//! Modules/_io/bufferedio.c). So these become streams that no thread has used. The module `_hydrozoa.ending` makes them, and
//! no other thread runs between their installation here and the cut.

use crate::allocators::raw;
use crate::api::fault::{Fault, Outcome};
use crate::api::reference::Ref;
use crate::threads::other_threads;
use pyo3_ffi::{
    METH_NOARGS, Py_INCREF, Py_IsInitialized, Py_None, PyCFunction_New, PyErr_Clear, PyMethodDef,
    PyMethodDefPointer, PyObject, PySys_SetObject, PyTuple_GetItem,
};
use std::ffi::{CStr, c_long};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Whether the host has the interpreter end.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// The thread that ends it.
static ENDER: AtomicI32 = AtomicI32::new(0);

/// Has the last function of `atexit` that is called be ours: the first one that is registered. It does nothing before
/// [`begin`].
const REGISTER: &str = "import atexit\natexit.register(last)\0";

/// # Safety
///
/// Attached, before any code of the program.
pub(crate) unsafe fn register() -> Outcome<()> {
    /// CPython wants it mutable, and does not change it.
    static mut METHOD: PyMethodDef = PyMethodDef {
        ml_name: c"last".as_ptr(),
        ml_meth: PyMethodDefPointer { PyCFunction: last },
        ml_flags: METH_NOARGS,
        ml_doc: ptr::null(),
    };
    // SAFETY: attached; the description lives as long as the function.
    unsafe {
        let last = Ref::owned(PyCFunction_New(&raw mut METHOD, ptr::null_mut()))?;
        crate::api::own_modules::run(REGISTER, c"_hydrozoa/register.py", &[(c"last", &last)])
    }
}

/// The interpreter begins to end.
///
/// # Safety
///
/// Attached, on the thread that ends the interpreter.
pub(crate) unsafe fn begin() {
    ENDER.store(super::number(), Ordering::Relaxed);
    IS_ENDING.store(true, Ordering::Release);
    let _ = raw::BEFORE_FREE.set(before_free);
    // SAFETY: by contract.
    unsafe {
        if other_threads::others().threads > 0 && call(c"begin").is_err() {
            PyErr_Clear();
        }
    }
}

/// Whether CPython has cut other threads off.
pub(crate) fn is_cut_off() -> bool {
    // SAFETY: reads a variable.
    IS_ENDING.load(Ordering::Acquire) && unsafe { Py_IsInitialized() } == 0
}

/// Called before memory is freed. The first that the end frees after the cut are the states of the threads that were cut
/// off. One of them may have looked for the mark just before it was set, and read its state only now.
fn before_free() {
    static HAS_WAITED: AtomicBool = AtomicBool::new(false);
    // SAFETY: neither has a precondition.
    unsafe {
        if is_cut_off()
            && ENDER.load(Ordering::Relaxed) == super::number()
            && !HAS_WAITED.swap(true, Ordering::Relaxed)
            && let Some(host) = crate::HOST.get()
        {
            (host.let_threads_pass)();
        }
    }
}

unsafe extern "C" fn last(_: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: called attached, without an exception.
    unsafe {
        if IS_ENDING.load(Ordering::Acquire) && call(c"end").is_err() {
            // To say so might wait for ever for a thread that writes.
            PyErr_Clear();
        }
        Py_INCREF(Py_None());
        Py_None()
    }
}

/// Calls a function of the module `_hydrozoa.ending`, and installs the streams that it returns.
///
/// # Safety
///
/// Attached, on the thread that ends the interpreter.
unsafe fn call(function: &CStr) -> Outcome<()> {
    // SAFETY: attached; the objects are alive during the calls.
    unsafe {
        let threads = Ref::int(other_threads::others().threads as c_long)?;
        let module = Ref::import(c"_hydrozoa.ending")?;
        let streams = module.call_method(function, [threads.as_ptr()])?;
        let streams = streams.as_ptr();
        if streams == Py_None() {
            return Ok(());
        }
        // It has all streams before, too. They live on, so that nobody closes what is below them, or flushes them.
        Py_INCREF(streams);
        for (place, name) in [c"stdout", c"__stdout__", c"stderr", c"__stderr__"].iter().enumerate()
        {
            let stream = PyTuple_GetItem(streams, place as isize);
            if stream.is_null() || PySys_SetObject(name.as_ptr(), stream) != 0 {
                return Err(Fault::Raised);
            }
        }
        Ok(())
    }
}
