//! How long a thread waits for the GIL before it asks for it (`sys.getswitchinterval`, in seconds).

use crate::api::fault::{Fault, Outcome};
use crate::api::reference::Ref;
use crate::api::under_gil::UnderGil;
use pyo3_ffi::{PyErr_Occurred, PyFloat_AsDouble, PyFloat_FromDouble, PySys_GetObject};

/// Threads are looked at as often as this while an exception waits for the right moment.
const OFTEN: f64 = 1e-4;

/// The usual interval while it is shortened.
static USUAL: UnderGil<Option<f64>> = UnderGil::new(None);

/// Shortens the interval, or gives it its usual length back.
///
/// # Safety
///
/// Attached.
pub(crate) unsafe fn shorten(is_short: bool) -> Outcome<()> {
    // SAFETY: attached; nobody else uses the place meanwhile, since the functions of `sys` release no GIL.
    unsafe {
        let usual = &mut *USUAL.as_ptr();
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
    // SAFETY: attached; `sys` keeps the function meanwhile.
    unsafe {
        let now = Ref::borrowed(PySys_GetObject(c"getswitchinterval".as_ptr()))?.call(&[])?;
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
    // SAFETY: as above; the number lives during the call.
    unsafe {
        let seconds = Ref::owned(PyFloat_FromDouble(seconds))?;
        let set = Ref::borrowed(PySys_GetObject(c"setswitchinterval".as_ptr()))?;
        set.call(&[seconds.as_ptr()]).map(drop)
    }
}
