//! How long a thread waits for the GIL before it asks for it (`sys.getswitchinterval`, in seconds).

use crate::fault::{Fault, Outcome};
use crate::reference::Ref;
use pyo3_ffi::{
    PyErr_Occurred, PyFloat_AsDouble, PyFloat_FromDouble, PyObject, PyObject_CallFunctionObjArgs,
    PyObject_CallNoArgs, PySys_GetObject,
};
use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::ptr;

/// Threads are looked at as often as this while an exception waits for the right moment.
const OFTEN: f64 = 1e-4;

/// The usual interval while it is shortened.
struct Usual(UnsafeCell<Option<f64>>);

// SAFETY: used under the GIL alone.
unsafe impl Sync for Usual {}

static USUAL: Usual = Usual(UnsafeCell::new(None));

/// Shortens the interval, or gives it its usual length back.
///
/// # Safety
///
/// Attached.
pub(crate) unsafe fn shorten(is_short: bool) -> Outcome<()> {
    // SAFETY: attached; nobody else uses the place meanwhile, since the functions of `sys` release no GIL.
    unsafe {
        let usual = &mut *USUAL.0.get();
        if is_short == usual.is_some() {
            return Ok(());
        }
        let now = now()?;
        match usual.take() {
            None if now > OFTEN => {
                set(OFTEN)?;
                *usual = Some(now);
            }
            // Unless the program has set another one. Python counts in microseconds.
            Some(usual) if (now - OFTEN).abs() < 1e-6 => set(usual)?,
            None | Some(_) => {}
        }
        Ok(())
    }
}

/// # Safety
///
/// Attached.
unsafe fn now() -> Outcome<f64> {
    // SAFETY: attached; the function lives during the call.
    unsafe {
        let function = function(c"getswitchinterval")?;
        let now = Ref::owned(PyObject_CallNoArgs(function.as_ptr()))?;
        match PyFloat_AsDouble(now.as_ptr()) {
            -1.0 if !PyErr_Occurred().is_null() => Err(Fault::Raised),
            now => Ok(now),
        }
    }
}

/// # Safety
///
/// Attached.
unsafe fn set(seconds: f64) -> Outcome<()> {
    // SAFETY: attached; the objects live during the call, whose arguments end with a null.
    unsafe {
        let function = function(c"setswitchinterval")?;
        let seconds = Ref::owned(PyFloat_FromDouble(seconds))?;
        let end = ptr::null_mut::<PyObject>();
        Ref::owned(PyObject_CallFunctionObjArgs(function.as_ptr(), seconds.as_ptr(), end)).map(drop)
    }
}

/// # Safety
///
/// Attached.
unsafe fn function(name: &CStr) -> Outcome<Ref> {
    // SAFETY: attached; `sys` keeps the function meanwhile.
    unsafe { Ref::borrowed(PySys_GetObject(name.as_ptr())) }
}
