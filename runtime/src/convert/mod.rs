//! Values across the boundary: Rust to Python and back.
//!
//! | Python | from Rust | to Rust |
//! |---|---|---|
//! | `None` | `()`, `Option::None` | `()`, `Option` |
//! | `bool` | `bool` | `bool` |
//! | `int` | integers up to 128 bits, [`Integer`] | the same; also objects with `__index__` |
//! | `float` | `f32`, `f64`; feature `half`: `f16`, `bf16` | the same; also objects with `__float__` |
//! | `complex` | feature `num-complex`: `Complex<f32>`, `Complex<f64>` | the same |
//! | `str` | `str`, `String`, `char`, `OsStr`, `OsString` | the same, owned |
//! | `bytes` | `[u8]`, `Vec<u8>` | `Vec<u8>`; also `bytearray` |
//! | `list` | `[T]`, `Vec<T>`, `[T; N]` | `Vec<T>`, `[T; N]`; from any sequence or set, not from `str` |
//! | `tuple` | tuples of up to twelve | the same |
//! | `dict` | `HashMap`, `BTreeMap` | the same |
//! | `set` | `HashSet`, `BTreeSet` | the same; also `frozenset` |
//! | `pathlib.Path` | `Path`, `PathBuf` | `PathBuf`; also `str`, `bytes`, objects with `__fspath__` |
//! | `timedelta` | `Duration`; feature `chrono`: `TimeDelta` | the same |
//! | `datetime` | `SystemTime`; feature `chrono`: `DateTime`, `NaiveDateTime` | the same |
//! | `date`, `time` | feature `chrono`: `NaiveDate`, `NaiveTime` | the same |
//! | any of the plain ones | [`Value`]; feature `serde`: `Serde<T>` of any serializable `T` | the same |
//! | buffer protocol | [`Session::lend`], [`Session::give`], [`Buffer`](buffer::Buffer) | [`Buffer`](buffer::Buffer) |
//! | `__dlpack__` | [`Tensor`](tensor::Tensor); feature `ndarray`: `Array` | the same |
//! | any object | [`Object`] and [`Handle`](crate::Handle) of the same interpreter | [`Object`], [`Handle`](crate::Handle) |
//!
//! The contents of `Box`, `Rc`, `Arc`, `Cow` or `&` convert as they do alone.

mod arguments;
pub(crate) mod buffer;
mod container;
pub(crate) mod element;
mod export;
mod extents;
mod integer;
mod lend;
mod memory_owner;
mod paths;
mod plain;
mod pointers;
mod scalar;
mod sequence;
pub(crate) mod tensor;
mod time;
mod value;

#[cfg(feature = "chrono")]
mod chrono;
#[cfg(feature = "num-complex")]
mod complex;
#[cfg(feature = "half")]
mod half;
#[cfg(feature = "ndarray")]
mod ndarray;
#[cfg(feature = "serde")]
mod serde;
#[cfg(feature = "tch")]
mod tch;

#[cfg(feature = "serde")]
pub use self::serde::Serde;
pub(crate) use arguments::{List, one_argument};
pub use arguments::{Named, Positional, Spread, ToArguments, ToKeywords};
pub(crate) use hydrozoa_payload::dlpack;
pub use integer::{Integer, OutOfRange};
pub(crate) use plain::Plain;
pub use value::Value;

use crate::interpreter::Attached;
use crate::object::Object;
use crate::payload::table::{Kind, TaggedValue};
use crate::session::Session;
use crate::{Error, Result};

/// A value that can be made into a Python object.
pub trait ToPython {
    /// A new reference to an object of `session`'s interpreter.
    ///
    /// # Errors
    ///
    /// [`Error::Foreign`], or the exception of making the object.
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>>;

    /// The value, if it needs no object of its own: it then crosses the boundary with the call that uses it.
    #[doc(hidden)]
    #[inline]
    fn as_plain(&self) -> Option<Plain<'_>> {
        None
    }

    /// Converts a slice of such values: to a list, or to `bytes` for `u8`.
    #[doc(hidden)]
    fn slice_to_python<'session>(
        items: &[Self],
        session: &'session Session,
    ) -> Result<Object<'session>>
    where
        Self: Sized,
    {
        container::gather(session, Kind::LIST, items)
    }
}

/// A value that can be made from a Python object.
pub trait FromPython<'session>: Sized {
    /// The object's value.
    ///
    /// # Errors
    ///
    /// [`Error::Convert`] if the object has no value of this type.
    fn from_python(object: &Object<'session>) -> Result<Self>;

    /// Whether [`FromPython::from_plain`] gives values.
    #[doc(hidden)]
    const PLAIN: bool = false;

    /// The result of [`FromPython::from_python`] for an object with this value, or `None` if that needs the object.
    #[doc(hidden)]
    #[inline]
    fn from_plain(_plain: Plain<'_>) -> Option<Self> {
        None
    }

    /// Makes a vector of such values from a sequence or set, or from `bytes` for `u8`.
    #[doc(hidden)]
    fn vec_from_python(object: &Object<'session>) -> Result<Vec<Self>> {
        if Self::PLAIN
            && let Some(values) = container::plain_items(object, Self::from_plain)?
        {
            return Ok(values);
        }
        sequence::items(object)?.iter().map(Self::from_python).collect()
    }
}

impl<T: ToPython + ?Sized> ToPython for &T {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        (**self).to_python(session)
    }

    #[inline]
    fn as_plain(&self) -> Option<Plain<'_>> {
        (**self).as_plain()
    }
}

impl ToPython for Object<'_> {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        let handle = self.handle_in(session)?;
        // SAFETY: the object is alive, and belongs to the session's interpreter.
        Ok(unsafe { Object::from_borrowed(session, handle) })
    }

    #[inline]
    fn as_plain(&self) -> Option<Plain<'_>> {
        Some(Plain::Object(self))
    }
}

impl<'session> FromPython<'session> for Object<'session> {
    fn from_python(object: &Object<'session>) -> Result<Self> {
        Ok(object.clone())
    }
}

/// A new object from a leaf.
fn build<'session>(session: &'session Session, leaf: &TaggedValue) -> Result<Object<'session>> {
    session.object(|inner, out, sink| {
        // SAFETY: `object` attaches, and what the leaf views outlives the call.
        unsafe { (inner.table().build)(leaf, out, sink) }
    })
}

/// A new object of a value that has none.
pub(crate) fn build_plain<'session>(
    session: &'session Session,
    plain: Plain<'_>,
) -> Result<Object<'session>> {
    match plain {
        Plain::Object(object) => object.to_python(session),
        plain => build(session, &plain.leaf(session)?),
    }
}

/// An object's value: a leaf with a view, which lasts as long as this.
struct Inspected<'object> {
    leaf: TaggedValue,
    object: &'object Object<'object>,
    /// While it is read nobody changes it: a bytearray would move its bytes.
    _attached: Attached<'object>,
}

impl<'object> Inspected<'object> {
    #[inline]
    fn new(object: &'object Object<'_>) -> Result<Self> {
        let attached = object.session().attach();
        let mut leaf = TaggedValue::new(Kind::OTHER);
        object.perform(|table, handle, sink| {
            // SAFETY: `perform` attaches, and the object is alive.
            unsafe { (table.inspect)(handle, &mut leaf, sink) }
        })?;
        Ok(Self { leaf, object, _attached: attached })
    }

    fn kind(&self) -> Kind {
        self.leaf.kind
    }

    /// The value, if a look is enough to get it.
    #[inline]
    fn plain(&self) -> Option<Plain<'_>> {
        // SAFETY: the object outlives `self` and keeps its bytes. They stay what they are while the GIL is held, as it is
        // since they were looked up.
        unsafe { Plain::of(&self.leaf) }
    }

    /// The bytes of a kind that has a view of some.
    fn bytes(&self) -> &[u8] {
        let has_view = matches!(self.kind(), Kind::STR | Kind::BYTES | Kind::BYTE_ARRAY);
        debug_assert!(has_view, "{:?} has no view", self.kind());
        // SAFETY: as for `plain`.
        if has_view { unsafe { self.leaf.bytes() } } else { &[] }
    }

    /// A copy of these bytes.
    fn copied(&self) -> Result<Vec<u8>> {
        let bytes = self.bytes();
        let mut copy = room(bytes.len(), || self.object.type_name())?;
        copy.extend_from_slice(bytes);
        Ok(copy)
    }

    /// A copy of the text of a `str`.
    fn text(&self) -> Result<String> {
        match self.plain() {
            Some(Plain::Str(text)) => {
                let mut copy = room(text.len(), || self.object.type_name())?;
                copy.extend_from_slice(text.as_bytes());
                // SAFETY: the bytes are those of a text.
                Ok(unsafe { String::from_utf8_unchecked(copy) })
            }
            _ => Err(self.unexpected("str")),
        }
    }

    /// The error for an object that is not of the requested type.
    fn unexpected(&self, expected: &str) -> Error {
        Error::convert(expected, self.object.type_name(), "it is of another type")
    }
}

/// An empty vector with room for so many values. Python decides how many, so a lack of room is an error, not a crash.
fn room<T>(count: usize, found: impl FnOnce() -> String) -> Result<Vec<T>> {
    let mut values = Vec::new();
    match values.try_reserve_exact(count) {
        Ok(()) => Ok(values),
        Err(_) => {
            let reason = format!(
                "there is no memory for {count} values of {} bytes; take less of it at a time",
                size_of::<T>()
            );
            Err(Error::convert("a copy in memory", found(), reason))
        }
    }
}

/// So many values.
fn filled<T: Copy>(value: T, count: usize, found: impl FnOnce() -> String) -> Result<Vec<T>> {
    let mut values = room(count, found)?;
    values.resize(count, value);
    Ok(values)
}

/// A leaf that holds bytes.
fn bytes_leaf(kind: Kind, bytes: &[u8]) -> TaggedValue {
    TaggedValue::view(kind, bytes)
}
