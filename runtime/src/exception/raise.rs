//! Errors of host functions as Python exceptions.

use super::{Exception, carried_error};
use crate::Error;
use crate::interpreter::Inner;
use crate::payload::table::{Interrupt, Raising, Text};
use std::error::Error as StdError;
use std::ptr;
use std::sync::Arc;

/// The type under which Python sees a foreign error.
const TYPE: &str = "RuntimeError";

/// Raises an error in Python.
///
/// # Safety
///
/// The thread must be attached to the interpreter, in a host function that is about to return null.
pub(crate) unsafe fn raise(inner: &Arc<Inner>, error: Error) {
    let raised = Raised::of(error);
    let handle = |exception: &Option<Exception>| {
        let handle =
            exception.as_ref().and_then(|exception| exception.object_reference().handle_in(inner));
        handle.unwrap_or(ptr::null_mut())
    };
    let cause = raised.error.as_ref().and_then(|error| cause(error, inner));
    let context = raised.error.map(|error| carried_error::context(inner, error));
    let raising = Raising {
        exception: handle(&raised.exception),
        type_name: Text::new(&raised.type_name),
        message: Text::new(&raised.message),
        cause: handle(&cause),
        traceback: Text::new(&raised.traceback),
        error: context.unwrap_or(ptr::null_mut()),
        drop: carried_error::release,
    };
    // SAFETY: attached, as the caller vouches. The texts and the exceptions outlive the call, and the context is given
    // away with the function that frees it.
    unsafe { (inner.table().raise)(&raising) };
}

/// An error in the parts that Python gets.
struct Raised {
    exception: Option<Exception>,
    type_name: String,
    message: String,
    traceback: String,
    /// The error that comes out again when the exception leaves Python.
    error: Option<Error>,
}

impl Raised {
    fn of(error: Error) -> Self {
        match error {
            Error::Python { type_name, message, traceback, exception } => {
                Self { exception, type_name, message, traceback, error: None }
            }
            Error::Interrupted { .. } => Self::interrupt(Interrupt::HANDLE),
            Error::Deadline { .. } => Self::interrupt(Interrupt::DEADLINE),
            Error::Host(mut error) => {
                // The exception is to hold the error, so the error must not hold the exception.
                let exception = error.take_exception();
                let traceback = error.traceback().unwrap_or_default().to_owned();
                let message = error.chain();
                let error = Some(Error::Host(error));
                Self { exception, type_name: TYPE.to_owned(), message, traceback, error }
            }
            other => {
                let message = other.to_string();
                // That of a value that Python code has passed is Python's own, and the traceback says where.
                let error = Some(other).filter(|other| !matches!(other, Error::Convert { .. }));
                let (type_name, traceback) = (TYPE.to_owned(), String::new());
                Self { exception: None, type_name, message, traceback, error }
            }
        }
    }

    fn interrupt(reason: Interrupt) -> Self {
        let class = reason.class().unwrap_or_default();
        Self {
            exception: None,
            type_name: format!("{}.{class}", Interrupt::MODULE),
            message: String::new(),
            traceback: String::new(),
            error: None,
        }
    }
}

/// The exception of this interpreter that is the nearest source of an error of the application.
fn cause(error: &Error, inner: &Arc<Inner>) -> Option<Exception> {
    let Error::Host(error) = error else { return None };
    let mut next: Option<&(dyn StdError + 'static)> = Some(error.as_error());
    while let Some(error) = next {
        let exception = error.downcast_ref().and_then(Error::exception);
        if let Some(exception) =
            exception.filter(|one| one.object_reference().handle_in(inner).is_some())
        {
            return Some(exception.clone());
        }
        next = error.source();
    }
    None
}
