//! Objects that a settled interpreter hides from the garbage collector: `gc.freeze`.
//!
//! The collector leaves the frozen objects alone for ever, even at the end of Python (`gc_collect_main` in
//! Modules/gcmodule.c, called by `finalize_modules`). Cycles among them would never be freed, and neither would values of the
//! host that they refer to. So objects frozen here are unfrozen before the end. Objects that a program freezes stay frozen, as
//! in Python.

use crate::api::reference::Ref;
use crate::exceptions::report::guarded;
use crate::table::Status;
use pyo3_ffi::PyErr_Clear;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering};

static IS_FROZEN: AtomicBool = AtomicBool::new(false);

/// See [`crate::table::PayloadTable::collect`].
pub(crate) unsafe extern "C" fn collect(freezes: bool, sink: *mut c_void) -> Status {
    // SAFETY: the host is attached, and passes its own sink.
    unsafe {
        guarded(sink, || {
            let gc = Ref::import(c"gc")?;
            if freezes && IS_FROZEN.swap(false, Ordering::Relaxed) {
                gc.call_method(c"unfreeze", [])?;
            }
            gc.call_method(c"collect", [])?;
            if freezes {
                gc.call_method(c"freeze", [])?;
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
        let gc = Ref::import(c"gc");
        if gc.and_then(|gc| gc.call_method(c"unfreeze", [])).is_err() {
            // The program has taken the function away.
            PyErr_Clear();
        }
    }
}
