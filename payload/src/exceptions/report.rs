//! Reports of failures to the host.

use crate::HOST;
use crate::api::fault::{Fault, Outcome};
use crate::api::reference::Ref;
use crate::exceptions::foreign;
use crate::exceptions::interrupts::Describing;
use crate::exceptions::raising;
use crate::table::{Failure, Handle, Status};
use pyo3_ffi::{
    Py_TYPE, PyBytes_AsString, PyBytes_Size, PyErr_Clear, PyList_Size, PyObject_Str,
    PySys_GetObject, PyUnicode_AsEncodedString,
};
use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a table function's body. Catches panics, and reports failures to the host. An exception of C++ that an extension
/// module lets out ends the process (see [`foreign`]).
///
/// # Safety
///
/// `sink` is what the host passed for this call. The body may only return [`Fault::Raised`] while
/// the thread is attached and an exception is set.
pub(crate) unsafe fn guarded(sink: *mut c_void, body: impl FnOnce() -> Outcome<()>) -> Status {
    let fault = match catch_unwind(AssertUnwindSafe(|| foreign::stopped(body))) {
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

/// As [`guarded`], for a body that makes an object: `out` gets it.
///
/// # Safety
///
/// As for [`guarded`]; the place is valid.
pub(crate) unsafe fn returning(
    out: *mut Handle,
    sink: *mut c_void,
    body: impl FnOnce() -> Outcome<Ref>,
) -> Status {
    // SAFETY: by contract.
    unsafe {
        guarded(sink, || {
            *out = body()?.into_handle();
            Ok(())
        })
    }
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
                let exception = raising::fetch();
                let raised = catch_unwind(AssertUnwindSafe(|| Raised::of(exception.as_ref())));
                let Raised { type_name, message, traceback } = raised.unwrap_or_default();
                let mut failure = Failure::new(Status::EXCEPTION, &type_name, &message, &traceback);
                if let Some(exception) = &exception {
                    failure.exception = exception.as_ptr().cast();
                    failure.error = raising::error_of(exception);
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
        unsafe { Self::of(raising::fetch().as_ref()) }
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
        // SAFETY: attached.
        unsafe {
            let _describing = Describing::begin();
            let raised = Self {
                type_name: type_name(exception).unwrap_or_default(),
                message: described(Ref::owned(PyObject_Str(exception.as_ptr())))
                    .unwrap_or_default(),
                traceback: formatted(exception).unwrap_or_default(),
            };
            PyErr_Clear();
            raised
        }
    }
}

/// The type's name as a traceback prints it: with its module, unless built in.
///
/// # Safety
///
/// The thread is attached.
unsafe fn type_name(exception: &Ref) -> Option<String> {
    // SAFETY: attached; every object has a type.
    unsafe {
        let kind = Ref::borrowed(Py_TYPE(exception.as_ptr()).cast()).ok()?;
        let name = described(kind.attribute(c"__qualname__"))?;
        let module = described(kind.attribute(c"__module__"));
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
        if Ref::import(c"traceback").is_err() {
            PyErr_Clear();
        }
    }
}

/// `"".join(traceback.format_exception(type(value), value, value.__traceback__))`.
///
/// # Safety
///
/// The thread is attached.
unsafe fn formatted(exception: &Ref) -> Option<String> {
    let value = exception.as_ptr();
    // SAFETY: attached, and all objects are alive during the calls.
    unsafe {
        // While Python starts there may be nothing yet that imports. The last of the finders there is
        // that of files (`_install_external_importers` in Lib/importlib/_bootstrap.py).
        let finders = PySys_GetObject(c"meta_path".as_ptr());
        if finders.is_null() || PyList_Size(finders) < 3 {
            PyErr_Clear();
            return None;
        }
        let (kind, traceback) =
            (Py_TYPE(value).cast(), exception.attribute(c"__traceback__").ok()?);
        let arguments = [kind, value, traceback.as_ptr()];
        let lines =
            Ref::import(c"traceback").ok()?.call_method(c"format_exception", arguments).ok()?;
        described(Ref::text(b"").ok()?.call_method(c"join", [lines.as_ptr()]))
    }
}

/// The text of a `str`, lone surrogates escaped; `None` (and no exception) for anything else.
///
/// # Safety
///
/// The thread is attached.
unsafe fn described(object: Outcome<Ref>) -> Option<String> {
    // SAFETY: attached; the bytes live as long as their object.
    unsafe {
        let text = object.and_then(|object| {
            let (encoding, errors) = (c"utf-8".as_ptr(), c"backslashreplace".as_ptr());
            Ref::owned(PyUnicode_AsEncodedString(object.as_ptr(), encoding, errors))
        });
        let Ok(text) = text else {
            PyErr_Clear();
            return None;
        };
        let len = usize::try_from(PyBytes_Size(text.as_ptr())).ok()?;
        let bytes = std::slice::from_raw_parts(PyBytes_AsString(text.as_ptr()).cast::<u8>(), len);
        Some(String::from_utf8_lossy(bytes).into_owned())
    }
}
