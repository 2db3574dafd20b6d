//! What a settled interpreter keeps away from the collector of garbage: `gc.freeze`.
//!
//! The collector leaves the frozen objects alone for ever, also at the end of Python (`gc_collect_main` in
//! Modules/gcmodule.c, called by `finalize_modules`). What is in cycles among them would never be freed, and neither would values of the
//! host that they refer to. So what was frozen here is unfrozen before the end. What a program freezes stays so, as in Python.

use crate::fault::Outcome;
use crate::reference::Ref;
use crate::report::guarded;
use crate::table::Status;
use pyo3_ffi::{PyErr_Clear, PyImport_ImportModule, PyObject_CallMethodNoArgs};
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

static IS_FROZEN: AtomicBool = AtomicBool::new(false);

/// See [`crate::table::PayloadTable::collect`].
pub(crate) unsafe extern "C" fn collect(freezes: bool, sink: *mut c_void) -> Status {
    // SAFETY: the host is attached, and passes its own sink.
    unsafe {
        guarded(sink, || {
            let gc = Ref::owned(PyImport_ImportModule(c"gc".as_ptr()))?;
            if freezes && IS_FROZEN.swap(false, Ordering::Relaxed) {
                call(&gc, c"unfreeze")?;
            }
            call(&gc, c"collect")?;
            if freezes {
                call(&gc, c"freeze")?;
                IS_FROZEN.store(true, Ordering::Relaxed);
            }
            Ok(())
        })
    }
}

/// See [`crate::table::PayloadTable::unfreeze`].
pub(crate) unsafe extern "C" fn unfreeze() {
    if !IS_FROZEN.swap(false, Ordering::Relaxed) {
        return;
    }
    // SAFETY: the caller is attached, without an exception.
    unsafe {
        let gc = Ref::owned(PyImport_ImportModule(c"gc".as_ptr()));
        if gc.and_then(|gc| call(&gc, c"unfreeze")).is_err() {
            // The program has taken the function away.
            PyErr_Clear();
        }
    }
}

/// # Safety
///
/// Attached.
unsafe fn call(gc: &Ref, name: &CStr) -> Outcome<()> {
    // SAFETY: by contract; the objects are alive during the calls.
    unsafe {
        let name = Ref::text(name.to_bytes())?;
        Ref::owned(PyObject_CallMethodNoArgs(gc.as_ptr(), name.as_ptr())).map(drop)
    }
}
