//! The exception that an error holds. Its methods are those of [`crate::exception`].

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A Python exception: a reference to the exception object, which any thread may keep.
///
/// It comes from an [`Error`](crate::Error) ([`Error::exception`](crate::Error::exception)) or from an object (`object.extract::<Exception>()`). You need a
/// session of its interpreter to look at it. Clones refer to the same exception.
///
/// ```no_run
/// # fn f(session: &hydrozoa::Session) -> hydrozoa::Result<()> {
/// let orders = session.import("orders")?;
/// if let Err(error) = orders.call_method("place", (7,)) {
///     if let Some(exception) = error.exception() {
///         if exception.is_instance_of(&orders.getattr("OrderError")?)? {
///             let code: i64 = exception.value(session)?.getattr("code")?.extract()?;
///             println!("the order was refused: {code}");
///         }
///         for frame in exception.frames(session)? {
///             println!("{frame}");
///         }
///     }
/// }
/// # Ok(()) }
/// ```
///
/// # What it keeps
///
/// It does not keep its interpreter alive. When the interpreter ends, the exception ends, and its methods return
/// [`Error::Ended`](crate::Error::Ended).
///
/// An exception refers to its traceback, and a traceback to its frames with their variables. All of these stay in the
/// interpreter's memory as long as the exception is kept. [`Exception::clear_frames`] frees the variables.
/// [`Error::without_exception`](crate::Error::without_exception) gives the exception up and keeps its texts. A drop never waits. If it is not made inside a
/// call or [`Session::with_gil`](crate::Session::with_gil), the next thread that enters the interpreter frees the exception
/// ([`Interpreter::drain`](crate::Interpreter::drain)).
#[derive(Clone)]
pub struct Exception {
    interpreter: Arc<str>,
    /// The reference to the object, whose type stands on a higher floor.
    reference: Arc<dyn Any + Send + Sync>,
}

impl Exception {
    /// An exception of the interpreter of this name.
    pub(crate) fn new(interpreter: Arc<str>, reference: impl Any + Send + Sync) -> Self {
        Self { interpreter, reference: Arc::new(reference) }
    }

    /// The reference, if it is a `T`.
    pub(crate) fn reference<T: Any>(&self) -> Option<&T> {
        self.reference.downcast_ref()
    }
}

impl fmt::Debug for Exception {
    /// Without a look into the interpreter.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "<an exception of {}>", self.interpreter)
    }
}
