//! Exceptions as objects: taken off the thread, put back, raised for the host.

use crate::api::carriers::{CarrierType, Lent, carried};
use crate::api::fault::{Fault, Outcome};
use crate::api::reference::{Ref, done};
use crate::exceptions::interrupts;
use crate::exceptions::report::guarded;
use crate::table::{Handle, Interrupt, Raising, Status};
use pyo3_ffi::{
    METH_NOARGS, Py_INCREF, Py_None, Py_TYPE, Py_tp_methods, PyErr_Clear, PyErr_NewException,
    PyErr_SetObject, PyErr_SetString, PyEval_GetBuiltins, PyExc_Exception, PyExc_RuntimeError,
    PyExc_TypeError, PyException_GetTraceback, PyException_SetCause, PyException_SetTraceback,
    PyExceptionClass_Check, PyExceptionInstance_Check, PyMethodDef, PyMethodDefPointer, PyObject,
    PyObject_GetItem, PyObject_SetAttrString,
};
use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Takes the exception that is set in this thread, and clears it. `None` if none is set.
///
/// # Safety
///
/// The thread is attached.
pub(crate) unsafe fn fetch() -> Option<Ref> {
    let (mut kind, mut value, mut traceback) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
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
    let (Ok(_), Ok(value)) = (kind, value) else { return None };
    if let Ok(traceback) = &traceback {
        // SAFETY: attached, and both are alive.
        unsafe { PyException_SetTraceback(value.as_ptr(), traceback.as_ptr()) };
    }
    Some(value)
}

/// Raises an exception that was raised before. It goes on with its traceback, its cause and its context.
///
/// # Safety
///
/// The thread is attached, and the object is an exception.
unsafe fn restore(exception: Ref) {
    let value = exception.into_handle().cast::<PyObject>();
    #[allow(deprecated, reason = "PyErr_SetRaisedException is new in 3.12")]
    // SAFETY: attached; three owned references are passed, the traceback's may be null.
    unsafe {
        let kind = Py_TYPE(value).cast::<PyObject>();
        Py_INCREF(kind);
        pyo3_ffi::PyErr_Restore(kind, value, PyException_GetTraceback(value));
    }
}

/// See [`crate::table::PayloadTable::raise`].
pub(crate) unsafe extern "C" fn raise(raising: *const Raising) {
    // SAFETY: the host is attached, and passes a valid description. A step that fails sets an exception of its
    // own, which is then raised instead.
    let _: Outcome<()> = (|| unsafe {
        let raising = &*raising;
        // From here on the host's error is dropped in every case.
        let error =
            (!raising.error.is_null()).then(|| Lent { context: raising.error, drop: raising.drop });
        let exception = match raising.exception.is_null() {
            true => make(raising)?,
            false => Ref::borrowed(raising.exception.cast())?,
        };
        if let Some(error) = error {
            attach(&exception, error)?;
        }
        match Ref::owned(PyException_GetTraceback(exception.as_ptr())) {
            Ok(_) => restore(exception),
            // It is new. The exception that is being handled becomes its context.
            Err(_) => PyErr_SetObject(Py_TYPE(exception.as_ptr()).cast(), exception.as_ptr()),
        }
        Ok(())
    })();
}

/// An exception of the type that is named, with its cause.
///
/// # Safety
///
/// The thread is attached, and the description is valid.
unsafe fn make(raising: &Raising) -> Outcome<Ref> {
    // SAFETY: attached, and all objects are alive during the calls.
    unsafe {
        let exception = match instance(class(raising)?.as_ref(), raising.message.bytes()) {
            Ok(exception) => exception,
            // The type does not exist, or cannot be made from one text.
            Err(_) => {
                PyErr_Clear();
                let separator: &[u8] = if raising.type_name.len == 0 { b"" } else { b": " };
                let name = raising.type_name.bytes();
                let text = [name, separator, raising.message.bytes()].concat();
                let kind = Ref::borrowed(PyExc_RuntimeError)?;
                instance(Some(&kind), &text)?
            }
        };
        let cause = match (raising.cause.is_null(), raising.traceback.len) {
            (false, _) => Ref::borrowed(raising.cause.cast())?,
            (true, 0) => return Ok(exception),
            (true, _) => remote(raising.traceback.bytes())?,
        };
        // Takes the reference over.
        PyException_SetCause(exception.as_ptr(), cause.into_handle().cast());
        Ok(exception)
    }
}

/// The class that is named: of an interrupt, or a built-in.
///
/// # Safety
///
/// As for [`make`].
unsafe fn class(raising: &Raising) -> Outcome<Option<Ref>> {
    // SAFETY: attached, and the names are valid views.
    unsafe {
        let name = raising.type_name.bytes();
        if let Some(reason) = str::from_utf8(name).ok().and_then(Interrupt::of) {
            return interrupts::class(reason).map(Some);
        }
        let name = Ref::text(name)?;
        let class = Ref::owned(PyObject_GetItem(PyEval_GetBuiltins(), name.as_ptr())).ok();
        if class.is_none() {
            PyErr_Clear();
        }
        Ok(class)
    }
}

/// `class(message)`, if that is an exception.
///
/// # Safety
///
/// The thread is attached.
unsafe fn instance(class: Option<&Ref>, message: &[u8]) -> Outcome<Ref> {
    let class = class.ok_or(Fault::Raised)?.as_ptr();
    // SAFETY: attached, and the objects are alive during the call.
    unsafe {
        if PyExceptionClass_Check(class) == 0 {
            return Err(Fault::Raised);
        }
        let made = Ref::borrowed(class)?.call(&[Ref::text(message)?.as_ptr()])?;
        match PyExceptionInstance_Check(made.as_ptr()) {
            0 => Err(Fault::Raised),
            _ => Ok(made),
        }
    }
}

/// An exception whose text is a traceback of elsewhere, as `concurrent.futures` has it (`_RemoteTraceback`).
///
/// # Safety
///
/// The thread is attached.
unsafe fn remote(traceback: &[u8]) -> Outcome<Ref> {
    static CLASS: AtomicPtr<PyObject> = AtomicPtr::new(ptr::null_mut());
    // SAFETY: attached: nobody else makes the class meanwhile. It lives as long as the interpreter.
    unsafe {
        if CLASS.load(Ordering::Acquire).is_null() {
            let name = c"_hydrozoa.RemoteTraceback".as_ptr();
            let class = Ref::owned(PyErr_NewException(name, PyExc_Exception, ptr::null_mut()))?;
            CLASS.store(class.into_handle().cast(), Ordering::Release);
        }
        let class = Ref::borrowed(CLASS.load(Ordering::Acquire))?;
        let quoted: [&[u8]; 3] = [b"\n\"\"\"\n", traceback, b"\"\"\""];
        instance(Some(&class), &quoted.concat())
    }
}

/// The attribute of a `RuntimeError` that holds the host's error.
const ERROR: &CStr = c"_hydrozoa_error";

static HOLDER: CarrierType = CarrierType::new();

/// Has an exception hold the host's error.
///
/// # Safety
///
/// The thread is attached.
unsafe fn attach(exception: &Ref, error: Lent) -> Outcome<()> {
    // SAFETY: attached; all objects of the type hold a `Lent`.
    unsafe {
        let slots = [(Py_tp_methods, (&raw mut METHODS).cast())];
        let holder = HOLDER.make(c"_hydrozoa.Error", &slots, error)?;
        done(PyObject_SetAttrString(exception.as_ptr(), ERROR.as_ptr(), holder.as_ptr()))
    }
}

/// The host's error that an exception holds, or null. It stays the exception's.
///
/// # Safety
///
/// The thread is attached, no exception is set, and the object is alive.
pub(crate) unsafe fn error_of(exception: &Ref) -> *mut c_void {
    // SAFETY: attached. The look-up in an object of this very class runs no Python code.
    unsafe {
        if Py_TYPE(exception.as_ptr()).cast() != PyExc_RuntimeError {
            return ptr::null_mut();
        }
        match exception.attribute(ERROR) {
            Ok(holder) if HOLDER.is_of(holder.as_ptr()) => carried::<Lent>(holder.as_ptr()).context,
            Ok(_) => ptr::null_mut(),
            Err(_) => {
                PyErr_Clear();
                ptr::null_mut()
            }
        }
    }
}

/// `__reduce__` and the end of the list. CPython wants a mutable list, and does not change it.
static mut METHODS: [PyMethodDef; 2] = [
    PyMethodDef {
        ml_name: c"__reduce__".as_ptr(),
        ml_meth: PyMethodDefPointer { PyCFunction: reduce },
        ml_flags: METH_NOARGS,
        ml_doc: ptr::null(),
    },
    PyMethodDef::zeroed(),
];

/// An exception is pickled with its attributes. A copy of it holds None in place of the host's error.
unsafe extern "C" fn reduce(_: *mut PyObject, _: *mut PyObject) -> *mut PyObject {
    // SAFETY: called attached.
    unsafe {
        let kind = Ref::borrowed(Py_TYPE(Py_None()).cast());
        let arguments = Ref::tuple(0, std::iter::empty());
        let reduced = Ref::tuple(2, [kind, arguments].into_iter());
        reduced.map_or(ptr::null_mut(), |reduced| reduced.into_handle().cast())
    }
}

/// See [`crate::table::PayloadTable::throw`].
pub(crate) unsafe extern "C" fn throw(object: Handle, sink: *mut c_void) -> Status {
    let object = object.cast::<PyObject>();
    // SAFETY: the host is attached, and passes a live object. The body fails with an exception set.
    unsafe {
        guarded(sink, || {
            let exception = match PyExceptionClass_Check(object) {
                0 => Ref::borrowed(object)?,
                _ => Ref::borrowed(object)?.call(&[])?,
            };
            if PyExceptionInstance_Check(exception.as_ptr()) == 0 {
                let reason = c"exceptions must derive from BaseException";
                PyErr_SetString(PyExc_TypeError, reason.as_ptr());
            } else {
                restore(exception);
            }
            Err(Fault::Raised)
        })
    }
}
