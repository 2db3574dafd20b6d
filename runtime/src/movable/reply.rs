//! The result of a movable's call.

use super::kept::Kept;
use crate::Result;
use crate::convert::FromPython;
use crate::object::Object;
use crate::session::Session;
use std::fmt;

/// The result of a call, with the session in whose interpreter it lives.
///
/// The session's lease ends when this is dropped. Extract what you need, and do not keep it.
pub struct Reply {
    /// Before the session, so that it is dropped first.
    value: Kept,
    session: Session,
}

impl Reply {
    pub(super) fn new(session: Session, value: Kept) -> Self {
        Self { value, session }
    }

    /// The result.
    pub fn object(&self) -> Object<'_> {
        self.value.object(&self.session)
    }

    /// The result in Rust's terms: `model.call((x,))?.extract::<Vec<f32>>()?`. Where nothing else is
    /// done with the result, [`Movable::call_extract`](crate::Movable::call_extract) is faster.
    ///
    /// # Errors
    ///
    /// [`Error::Convert`](crate::Error::Convert) if the object is no such value.
    pub fn extract<T: for<'s> FromPython<'s>>(&self) -> Result<T> {
        // The reference that is taken is given back in the same turn, and not by the queue.
        self.session.with_gil(|| self.object().extract())
    }

    /// The session in which it lives.
    pub fn session(&self) -> &Session {
        &self.session
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.object().fmt(formatter)
    }
}
