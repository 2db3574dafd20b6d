//! References to objects that outlive sessions.

use crate::convert::{FromPython, ToPython, one_argument};
use crate::interpreter::{Interpreter, ObjectReference};
use crate::object::{self, Object};
use crate::session::Session;
use crate::{Error, Result};
use std::fmt;
use std::sync::Arc;

/// A reference to an object of one interpreter that outlives sessions: a callback, a class, the state of a plug-in.
///
/// [`Object::keep`] makes one, and [`Handle::attach`] gives the object back in a session on its interpreter. A handle
/// needs no GIL: clones refer to the same object and cost no call of Python, and no drop waits. When the last clone is
/// dropped outside a call, the next thread that enters the interpreter frees the reference.
///
/// A handle does not keep its interpreter alive. When the interpreter ends, so does the object: Python frees it as it
/// frees what its modules hold. Keep the [`Pool`](crate::Pool) or the [`Interpreter`] beside the handle.
///
/// ```no_run
/// use hydrozoa::{Handle, Interpreter, Result};
///
/// struct Plugin {
///     interpreter: Interpreter,
///     run: Handle,
/// }
///
/// impl Plugin {
///     fn load(interpreter: Interpreter, name: &str) -> Result<Self> {
///         let run = interpreter.session().import(name)?.getattr("run")?.keep();
///         Ok(Self { interpreter, run })
///     }
///
///     fn run(&self, input: &str) -> Result<String> {
///         let session = self.interpreter.session();
///         self.run.attach(&session)?.call((input,))?.extract()
///     }
/// }
/// ```
#[derive(Clone)]
pub struct Handle(Arc<ObjectReference>);

impl Handle {
    /// The object, in a session on its interpreter.
    ///
    /// # Errors
    ///
    /// [`Error::Foreign`] in a session on another interpreter, or [`Error::Ended`] if the object's interpreter has ended.
    pub fn attach<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        let Some(handle) = self.0.handle_in(session.inner()) else {
            return Err(self.elsewhere(session));
        };
        // SAFETY: the object is of the session's interpreter, and this reference keeps it alive.
        Ok(unsafe { Object::from_borrowed(session, handle) })
    }

    /// The object's interpreter, or `None` if that has ended or begun to.
    ///
    /// The result keeps the interpreter alive. If all other handles are dropped meanwhile, the drop of the result waits for
    /// the interpreter's end.
    pub fn interpreter(&self) -> Option<Interpreter> {
        self.0.interpreter()
    }

    /// A session on the object's interpreter ([`Interpreter::session`]).
    ///
    /// # Errors
    ///
    /// [`Error::Ended`].
    pub fn session(&self) -> Result<Session> {
        self.interpreter().map(|interpreter| interpreter.session()).ok_or_else(|| self.ended())
    }

    /// Whether its interpreter has not begun to end.
    pub(crate) fn lives(&self) -> bool {
        self.0.lives()
    }

    #[cold]
    fn elsewhere(&self, receiver: &Session) -> Error {
        match self.interpreter() {
            Some(owner) => object::foreign(&owner, receiver.interpreter()),
            None => self.ended(),
        }
    }

    fn ended(&self) -> Error {
        Error::Ended { interpreter: self.0.interpreter_name().to_string() }
    }
}

impl Object<'_> {
    /// A reference to the object that outlives the session.
    pub fn keep(&self) -> Handle {
        self.clone().into()
    }
}

impl From<Object<'_>> for Handle {
    fn from(object: Object<'_>) -> Self {
        let (session, handle) = object.into_parts();
        // SAFETY: the reference was the object's own, and it is of the session's interpreter.
        Self(Arc::new(unsafe { ObjectReference::new(session.inner(), handle) }))
    }
}

impl ToPython for Handle {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        self.attach(session)
    }
}

one_argument!(impl {} Handle);

impl FromPython<'_> for Handle {
    fn from_python(object: &Object<'_>) -> Result<Self> {
        Ok(object.keep())
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "<an object of {}>", self.0.interpreter_name())
    }
}
