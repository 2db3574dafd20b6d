//! The Python frames of a thread, by a thread that has the GIL.
//!
//! `sys._current_frames` has the innermost frame of each thread (Doc/library/sys.rst).

use crate::fault::Outcome;
use crate::names::name_of;
use crate::reference::Ref;
use crate::report::guarded;
use crate::table::{Status, Text};
use pyo3_ffi::{
    Py_None, PyDict_GetItemWithError, PyErr_Clear, PyLong_AsLong, PyLong_FromUnsignedLongLong,
    PyObject_CallNoArgs, PyObject_GetAttr, PySys_GetObject, PyUnicode_AsUTF8AndSize,
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
                let code = attribute(&frame, "f_code")?;
                let number = PyLong_AsLong(attribute(&frame, "f_lineno")?.as_ptr());
                PyErr_Clear();
                let file = text(&attribute(&code, "co_filename")?);
                let name = text(&attribute(&code, "co_name")?);
                let described = format!("  File \"{file}\", line {number} in {name}");
                line(context, Text::new(&described));
                next =
                    Some(attribute(&frame, "f_back")?).filter(|frame| frame.as_ptr() != Py_None());
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
        let frames = Ref::owned(PyObject_CallNoArgs(function.as_ptr()))?;
        let thread = Ref::owned(PyLong_FromUnsignedLongLong(thread))?;
        let frame = PyDict_GetItemWithError(frames.as_ptr(), thread.as_ptr());
        match frame.is_null() {
            true => Ok(None),
            false => Ref::borrowed(frame).map(Some),
        }
    }
}

/// # Safety
///
/// Attached.
unsafe fn attribute(object: &Ref, name: &str) -> Outcome<Ref> {
    // SAFETY: attached, and both live.
    unsafe { Ref::owned(PyObject_GetAttr(object.as_ptr(), name_of(Text::new(name))?.as_ptr())) }
}

/// A `str`'s text. One that is no UTF-8 is a question mark.
///
/// # Safety
///
/// Attached.
unsafe fn text(object: &Ref) -> String {
    // SAFETY: attached; the text lives as long as the object.
    unsafe {
        let mut len = 0;
        let data = PyUnicode_AsUTF8AndSize(object.as_ptr(), &mut len);
        if data.is_null() {
            PyErr_Clear();
            return "?".into();
        }
        let len = usize::try_from(len).unwrap_or(0);
        String::from_utf8_lossy(Text { data: data.cast(), len }.bytes()).into_owned()
    }
}
