//! The Python frames of a thread, by a thread that has the GIL.
//!
//! `sys._current_frames` has the innermost frame of each thread (Doc/library/sys.rst).

use crate::api::fault::Outcome;
use crate::api::reference::Ref;
use crate::exceptions::report::guarded;
use crate::table::{Status, Text};
use pyo3_ffi::{
    Py_None, PyDict_GetItemWithError, PyErr_Clear, PyLong_AsLong, PyLong_FromUnsignedLongLong,
    PySys_GetObject,
};
use std::ffi::c_void;

/// As many frames as `faulthandler` writes.
const MOST: usize = 100;

/// See [`crate::table::PayloadTable::stack`].
pub(crate) unsafe extern "C" fn lines(
    thread: u64,
    line: unsafe extern "C" fn(*mut c_void, Text),
    context: *mut c_void,
    sink: *mut c_void,
) -> Status {
    // SAFETY: the host is attached, and passes a function with its context.
    unsafe {
        guarded(sink, || {
            let mut next = innermost(thread)?;
            for _ in 0..MOST {
                let Some(frame) = next else { break };
                let code = frame.attribute(c"f_code")?;
                let number = PyLong_AsLong(frame.attribute(c"f_lineno")?.as_ptr());
                PyErr_Clear();
                let (file, name) = (code.attribute(c"co_filename")?, code.attribute(c"co_name")?);
                let (file, name) = (file.utf8().unwrap_or("?"), name.utf8().unwrap_or("?"));
                let described = format!("  File \"{file}\", line {number} in {name}");
                line(context, Text::new(&described));
                next =
                    Some(frame.attribute(c"f_back")?).filter(|frame| frame.as_ptr() != Py_None());
            }
            Ok(())
        })
    }
}

/// The innermost frame of a thread.
///
/// # Safety
///
/// Attached.
unsafe fn innermost(thread: u64) -> Outcome<Option<Ref>> {
    // SAFETY: attached; `sys` and its functions live as long as the interpreter.
    unsafe {
        let function = Ref::borrowed(PySys_GetObject(c"_current_frames".as_ptr()))?;
        let frames = function.call(&[])?;
        let thread = Ref::owned(PyLong_FromUnsignedLongLong(thread))?;
        let frame = PyDict_GetItemWithError(frames.as_ptr(), thread.as_ptr());
        match frame.is_null() {
            true => Ok(None),
            false => Ref::borrowed(frame).map(Some),
        }
    }
}
