//! Reports of failures to the host.

use crate::HOST;
use crate::barrier;
use crate::fault::{Fault, Outcome};
use crate::interrupts::Describing;
use crate::reference::Ref;
use crate::table::{Failure, Status, Text};
use pyo3_ffi::{
    Py_TYPE, PyBytes_AsString, PyBytes_Size, PyErr_Clear, PyException_SetTraceback,
    PyImport_ImportModule, PyList_Size, PyObject, PyObject_GetAttrString, PyObject_Str,
    PyObject_VectorcallMethod, PySys_GetObject, PyUnicode_AsEncodedString, PyUnicode_Check,
};
use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

/// Runs a table function's body. Catches panics, and reports failures to the host. An exception of C++ that
/// Python code lets out ends the process (see [`barrier`]).
///
/// # Safety
///
/// `sink` is what the host passed for this call. The body may only return [`Fault::Raised`] while
/// the thread is attached and an exception is set.
pub(crate) unsafe fn guarded(sink: *mut c_void, body: impl FnOnce() -> Outcome<()>) -> Status {
    let fault = match catch_unwind(AssertUnwindSafe(|| barrier::call(body))) {
        Ok(Ok(())) => return Status::DONE,
        Ok(Err(fault)) => fault,
        // SAFETY: by contract.
        Err(panic) => return unsafe { report(sink, Status::PANIC, "", &panic_text(&*panic), "") },
    };
    // SAFETY: by contract.
    unsafe { failed(sink, fault) }
}

/// Reports a failure to the host.
///
/// # Safety
///
/// As for [`guarded`].
#[cold]
pub(crate) unsafe fn failed(sink: *mut c_void, fault: Fault) -> Status {
    // SAFETY: by contract; an exception is set where the fault says so.
    unsafe {
        match fault {
            Fault::Raised => {
                let raised = catch_unwind(|| Raised::take()).unwrap_or_default();
                report(
                    sink,
                    Status::EXCEPTION,
                    &raised.type_name,
                    &raised.message,
                    &raised.traceback,
                )
            }
            Fault::Conversion { expected, reason } => {
                report(sink, Status::CONVERSION, expected, &reason, "")
            }
            Fault::Start { name, message, traceback } => {
                report(sink, Status::START, &name, &message, &traceback)
            }
        }
    }
}

/// # Safety
///
/// `sink` is what the host passed for the call in progress.
unsafe fn report(
    sink: *mut c_void,
    status: Status,
    type_name: &str,
    message: &str,
    traceback: &str,
) -> Status {
    let failure = Failure {
        status,
        type_name: Text::new(type_name),
        message: Text::new(message),
        traceback: Text::new(traceback),
    };
    if let Some(host) = HOST.get() {
        // SAFETY: the sink belongs to the call in progress, and the texts outlive this one.
        unsafe { (host.fail)(sink, &failure) };
    }
    status
}

/// The message of a panic.
pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned())
}

/// A Python exception as text.
#[derive(Default)]
pub(crate) struct Raised {
    type_name: String,
    pub(crate) message: String,
    pub(crate) traceback: String,
}

impl Raised {
    /// As the last line of a traceback has it: many a MemoryError has no text.
    pub(crate) fn line(&self) -> String {
        match self.message.is_empty() {
            true => self.type_name.clone(),
            false => format!("{}: {}", self.type_name, self.message),
        }
    }

    /// Takes the exception that is set in this thread, and clears it.
    ///
    /// # Safety
    ///
    /// The thread is attached.
    pub(crate) unsafe fn take() -> Self {
        let (mut kind, mut value, mut traceback) =
            (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
        // The three-part functions are deprecated since 3.12, and the only ones that 3.10 has.
        #[allow(deprecated, reason = "PyErr_GetRaisedException is new in 3.12")]
        // SAFETY: attached; the out-parameters become ours.
        unsafe {
            pyo3_ffi::PyErr_Fetch(&mut kind, &mut value, &mut traceback);
            pyo3_ffi::PyErr_NormalizeException(&mut kind, &mut value, &mut traceback);
        }
        // SAFETY: each is an owned reference or null.
        let (kind, value, traceback) =
            unsafe { (Ref::owned(kind), Ref::owned(value), Ref::owned(traceback)) };
        let (Ok(_), Ok(value)) = (kind, value) else {
            return Self {
                type_name: "SystemError".to_owned(),
                message: "an operation failed without an exception".to_owned(),
                traceback: String::new(),
            };
        };
        // SAFETY: attached, and the objects are alive. A part of the description that fails is empty,
        // and its own exception is cleared.
        unsafe {
            let _describing = Describing::begin();
            if let Ok(traceback) = &traceback {
                PyException_SetTraceback(value.as_ptr(), traceback.as_ptr());
            }
            let described = Self {
                type_name: type_name(value.as_ptr()).unwrap_or_default(),
                message: utf8(PyObject_Str(value.as_ptr())).unwrap_or_default(),
                traceback: formatted(value.as_ptr()).unwrap_or_default(),
            };
            PyErr_Clear();
            described
        }
    }
}

/// The type's name as a traceback prints it: with its module, unless built in.
///
/// # Safety
///
/// The thread is attached, and `value` alive.
unsafe fn type_name(value: *mut PyObject) -> Option<String> {
    // SAFETY: attached; every object has a type, which the object keeps alive.
    unsafe {
        let kind = Py_TYPE(value).cast::<PyObject>();
        let name = utf8(PyObject_GetAttrString(kind, c"__qualname__".as_ptr()))?;
        let module = utf8(PyObject_GetAttrString(kind, c"__module__".as_ptr()));
        Some(match module.as_deref() {
            None | Some("builtins" | "__main__") => name,
            Some(module) => format!("{module}.{name}"),
        })
    }
}

/// `"".join(traceback.format_exception(type(value), value, value.__traceback__))`.
///
/// # Safety
///
/// The thread is attached, and `value` alive.
unsafe fn formatted(value: *mut PyObject) -> Option<String> {
    // SAFETY: attached, and all objects are alive during the calls.
    unsafe {
        // While Python starts there may be nothing yet that imports. The last of the finders there is
        // that of files (`_install_external_importers` in Lib/importlib/_bootstrap.py).
        let finders = PySys_GetObject(c"meta_path".as_ptr());
        if finders.is_null() || PyList_Size(finders) < 3 {
            PyErr_Clear();
            return None;
        }
        let module = Ref::owned(PyImport_ImportModule(c"traceback".as_ptr())).ok()?;
        let traceback =
            Ref::owned(PyObject_GetAttrString(value, c"__traceback__".as_ptr())).ok()?;
        let method = Ref::text(b"format_exception").ok()?;
        let arguments = [module.as_ptr(), Py_TYPE(value).cast(), value, traceback.as_ptr()];
        let lines = Ref::owned(PyObject_VectorcallMethod(
            method.as_ptr(),
            arguments.as_ptr(),
            arguments.len(),
            ptr::null_mut(),
        ))
        .ok()?;
        let (empty, join) = (Ref::text(b"").ok()?, Ref::text(b"join").ok()?);
        let arguments = [empty.as_ptr(), lines.as_ptr()];
        utf8(PyObject_VectorcallMethod(
            join.as_ptr(),
            arguments.as_ptr(),
            arguments.len(),
            ptr::null_mut(),
        ))
    }
}

/// The text of a new reference to a `str`, lone surrogates escaped; `None` (and no exception) if
/// there is none.
///
/// # Safety
///
/// The thread is attached; `object` is an owned reference, or null with an exception set.
unsafe fn utf8(object: *mut PyObject) -> Option<String> {
    // SAFETY: attached; the references are owned here.
    unsafe {
        let text = match Ref::owned(object) {
            Ok(object) if PyUnicode_Check(object.as_ptr()) != 0 => {
                Ref::owned(PyUnicode_AsEncodedString(
                    object.as_ptr(),
                    c"utf-8".as_ptr(),
                    c"backslashreplace".as_ptr(),
                ))
                .ok()
            }
            _ => None,
        };
        let Some(text) = text else {
            PyErr_Clear();
            return None;
        };
        let len = usize::try_from(PyBytes_Size(text.as_ptr())).ok()?;
        let bytes = std::slice::from_raw_parts(PyBytes_AsString(text.as_ptr()).cast::<u8>(), len);
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}
