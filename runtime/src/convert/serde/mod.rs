//! Any type that serde knows, as plain Python values.

mod deserialize;
mod failure;
mod serialize;
mod value;

use super::{FromPython, ToPython};
use crate::Result;
use crate::object::Object;
use crate::session::Session;
use deserialize::Deserializer;
use serde::{Serialize, de::DeserializeOwned};
use serialize::Serializer;

/// A value that crosses as serde describes it: wherever a value is converted, `Serde(value)` passes any
/// [`Serialize`] type to Python, and `Serde<T>` takes any [`DeserializeOwned`] type from it.
///
/// | serde | Python |
/// |---|---|
/// | struct, map | `dict` |
/// | sequence | `list`; to Rust also `tuple`, and `bytes` as numbers |
/// | tuple, tuple struct | `tuple`; to Rust also `list` |
/// | integers up to 128 bits, floats, `bool` | `int`, `float`, `bool` |
/// | string, `char` | `str` |
/// | bytes (crate serde_bytes) | `bytes`; to Rust also `bytearray` |
/// | `None`, `()`, unit struct | `None` |
/// | newtype struct, `Some` | what it contains |
/// | enum variant without data | its name |
/// | other enum variant | `{name: content}` (serde's "externally tagged") |
///
/// An error names the path to the value that it is about, such as `layers[2].size`.
///
/// ```no_run
/// # use hydrozoa::{Pool, convert::Serde};
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Options {
///     beams: u32,
///     stop: Vec<String>,
/// }
/// # let pool = Pool::builder().interpreters(1).build()?;
/// # let session = pool.acquire()?;
/// let options = Options { beams: 4, stop: vec!["\n".to_owned()] };
/// let copy = session.import("copy")?.call_method("copy", (Serde(&options),))?;
/// let Serde(same): Serde<Options> = copy.extract()?;
/// assert_eq!(same.beams, 4);
/// # Ok::<(), hydrozoa::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Serde<T>(pub T);

/// The limit of nesting, as in JSON parsers: a list can contain itself, and each level takes stack.
const DEPTH: usize = 128;

impl<T: Serialize> ToPython for Serde<T> {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        let _attached = session.attach();
        let serializer = Serializer { session, depth: DEPTH };
        self.0
            .serialize(serializer)
            .map_err(|failure| failure.into_error(std::any::type_name::<T>()))
    }
}

impl<T: DeserializeOwned> FromPython<'_> for Serde<T> {
    fn from_python(object: &Object<'_>) -> Result<Self> {
        let _attached = object.session().attach();
        T::deserialize(Deserializer { object, depth: DEPTH })
            .map(Self)
            .map_err(|failure| failure.into_error(std::any::type_name::<T>()))
    }
}
