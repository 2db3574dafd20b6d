//! Reports of failures to the host.

use crate::HOST;
use crate::barrier;
use crate::exceptions;
use crate::fault::{Fault, Outcome};
use crate::interrupts::Describing;
use crate::reference::Ref;
use crate::table::{Failure, Status};
use pyo3_ffi::{
    Py_TYPE, PyBytes_AsString, PyBytes_Size, PyErr_Clear, PyImport_ImportModule, PyList_Size,
    PyObject, PyObject_GetAttrString, PyObject_Str, PyObject_VectorcallMethod, PySys_GetObject,
    PyUnicode_AsEncodedString, PyUnicode_Check,
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
        Err(panic) => {
            let failure = Failure::new(Status::PANIC, "", &panic_text(&*panic), "");
            // SAFETY: by contract.
            return unsafe { report(sink, &failure) };
        }
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
                let exception = exceptions::fetch();
                let raised = catch_unwind(AssertUnwindSafe(|| Raised::of(exception.as_ref())));
                let Raised { type_name, message, traceback } = raised.unwrap_or_default();
                let mut failure = Failure::new(Status::EXCEPTION, &type_name, &message, &traceback);
                if let Some(exception) = &exception {
                    failure.exception = exception.as_ptr().cast();
                    failure.error = exceptions::error_of(exception);
                }
                report(sink, &failure)
            }
            Fault::Conversion { expected, reason } => {
                report(sink, &Failure::new(Status::CONVERSION, expected, &reason, ""))
            }
            Fault::Start { name, message, traceback } => {
                report(sink, &Failure::new(Status::START, &name, &message, &traceback))
            }
        }
    }
}

/// # Safety
///
/// `sink` is what the host passed for the call in progress, and the thread is attached if there is an exception.
unsafe fn report(sink: *mut c_void, failure: &Failure) -> Status {
    if let Some(host) = HOST.get() {
        // SAFETY: the sink belongs to the call in progress, and what the failure refers to outlives this call.
        unsafe { (host.fail)(sink, failure) };
    }
    failure.status
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
        // SAFETY: as the caller vouches.
        unsafe { Self::of(exceptions::fetch().as_ref()) }
    }

    /// Describes an exception. A part of the description that fails is empty, and its own exception is cleared.
    ///
    /// # Safety
    ///
    /// The thread is attached, and no exception is set.
    unsafe fn of(exception: Option<&Ref>) -> Self {
        let Some(exception) = exception else {
            return Self {
                type_name: "SystemError".to_owned(),
                message: "an operation failed without an exception".to_owned(),
                traceback: String::new(),
            };
        };
        let value = exception.as_ptr();
        // SAFETY: attached, and the object is alive.
        unsafe {
            let _describing = Describing::begin();
            let described = Self {
                type_name: type_name(value).unwrap_or_default(),
                message: utf8(PyObject_Str(value)).unwrap_or_default(),
                traceback: formatted(value).unwrap_or_default(),
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

/// Imports what describes exceptions. An interrupt that falls into an import leaves half a module to a thread that waits for it.
///
/// # Safety
///
/// The thread is attached.
pub(crate) unsafe fn prepare() {
    // SAFETY: attached, by contract. Without the module exceptions are described in fewer words.
    unsafe {
        if Ref::owned(PyImport_ImportModule(c"traceback".as_ptr())).is_err() {
            PyErr_Clear();
        }
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
