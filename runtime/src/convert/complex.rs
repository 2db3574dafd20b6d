//! `num_complex::Complex` as Python's `complex`.

use super::{FromPython, Inspected, ToPython};
use crate::Result;
use crate::object::Object;
use crate::payload::table::Kind;
use crate::session::Session;
use num_complex::Complex;

macro_rules! complex {
    ($($part:ty),*) => {$(
        impl ToPython for Complex<$part> {
            fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
                session.import("builtins")?.call_method("complex", (self.re, self.im))
            }
        }

        impl FromPython<'_> for Complex<$part> {
            /// From a number of any kind, as `complex` makes it.
            fn from_python(object: &Object<'_>) -> Result<Self> {
                let number = number(object)?;
                Ok(Self::new(number.getattr("real")?.extract()?, number.getattr("imag")?.extract()?))
            }
        }
    )*};
}

complex!(f32, f64);

/// `complex(object)`.
fn number<'session>(object: &Object<'session>) -> Result<Object<'session>> {
    let inspected = Inspected::new(object)?;
    let has = |method: &str| object.getattr(method).is_ok();
    // `complex` would also read the text of a str.
    let is_number = match inspected.kind() {
        Kind::BOOL | Kind::INT | Kind::BIG_INT | Kind::FLOAT => true,
        Kind::OTHER => has("__complex__") || has("__float__") || has("__index__") || has("imag"),
        _ => false,
    };
    match is_number {
        true => object.session().import("builtins")?.call_method("complex", (object,)),
        false => Err(inspected.unexpected("complex")),
    }
}
