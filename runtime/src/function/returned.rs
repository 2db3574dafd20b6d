//! The values that host functions may return.

use crate::convert::ToPython;
use crate::object::Object;
use crate::session::Session;
use crate::{Error, Result};

/// The result of a Rust function for Python code: a value with [`ToPython`], or a `Result` of one with an error that becomes
/// an [`Error`].
pub trait Returned {
    /// The object for Python.
    ///
    /// # Errors
    ///
    /// The function's error, or a failed conversion.
    fn into_object(self, session: &Session) -> Result<Object<'_>>;
}

impl<T: ToPython> Returned for T {
    fn into_object(self, session: &Session) -> Result<Object<'_>> {
        session.object_from(&self)
    }
}

impl<T: ToPython, E: Into<Error>> Returned for Result<T, E> {
    fn into_object(self, session: &Session) -> Result<Object<'_>> {
        session.object_from(&self.map_err(Into::into)?)
    }
}
