//! The result of a movable's call.

use super::owned_object::OwnedObject;
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
    value: OwnedObject,
    session: Session,
}

impl Reply {
    pub(super) fn new(session: Session, value: OwnedObject) -> Self {
        Self { value, session }
    }

    /// The result.
    pub fn object(&self) -> Object<'_> {
        self.value.object(&self.session)
    }

    /// The result in Rust's terms: `model.call((x,))?.extract::<Vec<f32>>()?`. If you need nothing else
    /// of the result, [`Movable::call_extract`](crate::Movable::call_extract) is faster.
    ///
    /// # Errors
    ///
    /// [`Error::Convert`](crate::Error::Convert) if the object is not such a value.
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
