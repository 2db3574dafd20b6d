//! Python exceptions as values.

mod carried_error;
mod frame;
mod raise;

pub use crate::error::Exception;
pub use frame::Frame;
pub(crate) use raise::raise;

use crate::convert::{FromPython, ToPython, one_argument};
use crate::interpreter::{Inner, ObjectReference};
use crate::object::{self, Object};
use crate::payload::Owner;
use crate::payload::table::{Failure, Handle};
use crate::session::Session;
use crate::{Error, Result};
use std::sync::Arc;

impl Exception {
    /// Keeps an exception.
    ///
    /// # Safety
    ///
    /// `handle` must be an owned reference to an exception of the interpreter.
    unsafe fn from_owned(inner: &Arc<Inner>, handle: Handle) -> Self {
        // SAFETY: as the caller vouches.
        let reference = unsafe { ObjectReference::new(inner, handle) };
        Self::new(Arc::clone(reference.interpreter_name()), reference)
    }

    fn object_reference(&self) -> &ObjectReference {
        self.reference().expect("exceptions are made of nothing else")
    }

    /// The exception object. Its attributes are those of the exception: `exception.value(&session)?.getattr("code")?`.
    ///
    /// # Errors
    ///
    /// [`Error::Foreign`] in a session on another interpreter, or [`Error::Ended`] if the exception's interpreter has
    /// ended.
    pub fn value<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        let Some(handle) = self.object_reference().handle_in(session.inner()) else {
            return Err(self.elsewhere(session));
        };
        // SAFETY: the exception is of the session's interpreter, and this reference keeps it alive.
        Ok(unsafe { Object::from_borrowed(session, handle) })
    }

    #[cold]
    fn elsewhere(&self, receiver: &Session) -> Error {
        match self.object_reference().interpreter() {
            Some(owner) => object::foreign(&owner, receiver.interpreter()),
            None => {
                Error::Ended { interpreter: self.object_reference().interpreter_name().to_string() }
            }
        }
    }

    /// Whether it is an instance of a class, or of one of a tuple of classes, as `isinstance` says. The classes' session
    /// is of the exception's interpreter: `exception.is_instance_of(&session.import("builtins")?.getattr("OSError")?)`.
    ///
    /// # Errors
    ///
    /// As [`Exception::value`], and `TypeError` if `class` is neither.
    pub fn is_instance_of(&self, class: &Object<'_>) -> Result<bool> {
        let session = class.session();
        session.with_gil(|| {
            let value = self.value(session)?;
            session.import("builtins")?.call_method("isinstance", (value, class))?.truth()
        })
    }

    /// Whether both are the same exception (`is`).
    pub fn is(&self, other: &Self) -> bool {
        self.object_reference().is(other.object_reference())
    }

    /// `__cause__`: the exception behind `from`.
    ///
    /// # Errors
    ///
    /// As [`Exception::value`].
    pub fn cause(&self, session: &Session) -> Result<Option<Self>> {
        session.with_gil(|| self.value(session)?.getattr("__cause__")?.extract())
    }

    /// `__context__`: the exception that was being handled when this one was raised.
    ///
    /// # Errors
    ///
    /// As [`Exception::value`].
    pub fn context(&self, session: &Session) -> Result<Option<Self>> {
        session.with_gil(|| self.value(session)?.getattr("__context__")?.extract())
    }

    /// `args`: the arguments that the exception was made from.
    ///
    /// # Errors
    ///
    /// As [`Exception::value`].
    pub fn args<'session>(&self, session: &'session Session) -> Result<Vec<Object<'session>>> {
        session.with_gil(|| self.value(session)?.getattr("args")?.extract())
    }

    /// The texts that `add_note` has added, lone surrogates escaped. Python has notes since 3.11.
    ///
    /// # Errors
    ///
    /// As [`Exception::value`], or the exception of a note's `__str__`.
    pub fn notes(&self, session: &Session) -> Result<Vec<String>> {
        session.with_gil(|| {
            let value = self.value(session)?;
            let builtins = session.import("builtins")?;
            let notes = builtins.call_method("getattr", (value, "__notes__", ()))?;
            match notes.is_none() {
                true => Ok(Vec::new()),
                false => {
                    let str = builtins.getattr("str")?;
                    notes.iter()?.map(|note| frame::text(&str.call((note?,))?)).collect()
                }
            }
        })
    }

    /// The frames of its traceback, the outermost call first and that which has raised it last.
    ///
    /// # Errors
    ///
    /// As [`Exception::value`].
    pub fn frames(&self, session: &Session) -> Result<Vec<Frame>> {
        session.with_gil(|| frame::of(self.value(session)?.getattr("__traceback__")?))
    }

    /// Frees the variables of its traceback's frames, and of those of its causes and contexts, as
    /// `traceback.clear_frames` does. The frames and the texts stay. Frames that still run keep their variables.
    ///
    /// # Errors
    ///
    /// As [`Exception::value`].
    pub fn clear_frames(&self, session: &Session) -> Result<()> {
        session.with_gil(|| {
            let clear = session.import("traceback")?.getattr("clear_frames")?;
            let mut seen: Vec<Self> = Vec::new();
            let mut left = vec![self.clone()];
            while let Some(exception) = left.pop() {
                if seen.iter().any(|known| known.is(&exception)) {
                    continue;
                }
                clear.call((exception.value(session)?.getattr("__traceback__")?,))?;
                left.extend(exception.cause(session)?);
                left.extend(exception.context(session)?);
                seen.push(exception);
            }
            Ok(())
        })
    }
}

impl FromPython<'_> for Exception {
    /// Keeps the exception, which need not have been raised.
    fn from_python(object: &Object<'_>) -> Result<Self> {
        let session = object.session();
        let builtins = session.import("builtins")?;
        // The type itself: `isinstance` would take the word of `__class__`.
        let class = builtins.call_method("type", (object,))?;
        let base = builtins.getattr("BaseException")?;
        if !builtins.call_method("issubclass", (class, base))?.truth()? {
            return Err(Error::convert("an exception", object.type_name(), "it is none"));
        }
        let (_, handle) = object.clone().into_parts();
        // SAFETY: the clone's reference is owned, the session is of the object's interpreter, and it is an exception.
        Ok(unsafe { Self::from_owned(session.inner(), handle) })
    }
}

one_argument!(impl {} Exception);

impl ToPython for Exception {
    /// The same exception object.
    ///
    /// # Errors
    ///
    /// As [`Exception::value`].
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        self.value(session)
    }
}

impl Object<'_> {
    /// The error that raises this object in Python, for a host function to return: an instance of any class of exceptions,
    /// or such a class, which is called without arguments.
    ///
    /// ```no_run
    /// # fn f(session: &hydrozoa::Session, id: i64) -> hydrozoa::Result<()> {
    /// let refused = session.import("orders")?.getattr("OrderError")?;
    /// Err(refused.call((id,))?.into_error())
    /// # }
    /// ```
    ///
    /// If the object is not an exception, the error is a `TypeError`. If the class cannot be called without arguments, it is
    /// the exception of that call.
    pub fn into_error(self) -> Error {
        let thrown = self.perform(|table, handle, sink| {
            // SAFETY: `perform` attaches, and the object is alive.
            unsafe { (table.throw)(handle, sink) }
        });
        match thrown {
            Err(error) => error,
            Ok(()) => Error::defect("an exception was not raised"),
        }
    }
}

impl Owner for Arc<Inner> {
    unsafe fn raised(&self, error: Error, failure: &Failure) -> Error {
        // SAFETY: attached, and the exception is alive, as the caller vouches; it is of this interpreter.
        unsafe { (self.table().retain)(failure.exception) };
        // SAFETY: the reference just made is owned by the result.
        let exception = unsafe { Exception::from_owned(self, failure.exception) };
        // SAFETY: the caller vouches that the exception holds it.
        match (unsafe { carried_error::take(failure.error) }, error) {
            (Some(Error::Host(passed)), Error::Python { traceback, .. }) => {
                Error::Host(passed.raised(traceback, exception))
            }
            (Some(passed), _) => passed,
            (None, Error::Python { type_name, message, traceback, .. }) => {
                Error::Python { type_name, message, traceback, exception: Some(exception) }
            }
            (None, other) => other,
        }
    }
}
