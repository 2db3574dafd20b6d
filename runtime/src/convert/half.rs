//! Numbers of 16 bits as Python's `float`.

use super::{FromPython, ToPython};
use crate::Result;
use crate::object::Object;
use crate::session::Session;

macro_rules! floats {
    ($($type:ty),*) => {$(
        impl ToPython for $type {
            fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
                self.to_f64().to_python(session)
            }
        }

        impl FromPython<'_> for $type {
            /// Rounds to the nearest number of this type.
            fn from_python(object: &Object<'_>) -> Result<Self> {
                f64::from_python(object).map(Self::from_f64)
            }
        }
    )*};
}

floats!(half::f16, half::bf16);
