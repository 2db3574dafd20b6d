//! Items for code that the macros of `hydrozoa-macros` generate.

use crate::convert::ToPython;
use crate::object::Object;
use crate::session::Session;
use crate::{Error, Result};

/// The result of `__next__`: `None` ends the iteration.
pub trait Next {
    /// The next item for Python.
    ///
    /// # Errors
    ///
    /// A `StopIteration`, the function's error, or a failed conversion.
    fn into_object(self, session: &Session) -> Result<Object<'_>>;
}

impl<T: ToPython> Next for Option<T> {
    fn into_object(self, session: &Session) -> Result<Object<'_>> {
        match self {
            Some(item) => session.object_from(&item),
            None => Err(Error::raise("StopIteration", "")),
        }
    }
}

impl<T: ToPython, E: Into<Error>> Next for Result<Option<T>, E> {
    fn into_object(self, session: &Session) -> Result<Object<'_>> {
        self.map_err(Into::into)?.into_object(session)
    }
}
