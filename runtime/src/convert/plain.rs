//! Values that cross the boundary by themselves, many in one crossing.

use crate::Result;
use crate::object::Object;
use crate::payload::table::{Kind, TaggedValue};
use crate::session::Session;

/// A value without others in it.
///
/// On the way in the interpreter makes its object in the call that uses it. On the way out it is read without a reference
/// to the object, so its reader must not run Python code. Only this crate can name the type, and with it implement the
/// functions of the conversion traits that take it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Plain<'a> {
    /// `None`.
    None,
    /// `bool`.
    Bool(bool),
    /// `int`.
    Int(i64),
    /// `float`.
    Float(f64),
    /// `str`.
    Str(&'a str),
    /// `bytes`.
    Bytes(&'a [u8]),
    /// An object that exists. On the way in only.
    Object(&'a Object<'a>),
}

impl<'a> Plain<'a> {
    /// The same for the table of `receiver`'s interpreter, valid as long as this.
    #[inline]
    pub(crate) fn leaf(self, receiver: &Session) -> Result<TaggedValue> {
        Ok(match self {
            Self::None => TaggedValue::new(Kind::NONE),
            Self::Bool(value) => TaggedValue::integer(Kind::BOOL, value.into()),
            Self::Int(value) => TaggedValue::integer(Kind::INT, value),
            Self::Float(value) => TaggedValue::float(value),
            Self::Str(text) => TaggedValue::view(Kind::STR, text.as_bytes()),
            Self::Bytes(bytes) => TaggedValue::view(Kind::BYTES, bytes),
            Self::Object(object) => {
                TaggedValue::object(Kind::BORROWED, object.handle_in(receiver)?)
            }
        })
    }

    /// The value of a leaf from an interpreter, if a look is enough to get it.
    ///
    /// # Safety
    ///
    /// The view is valid during `'a`.
    #[inline]
    pub(crate) unsafe fn of(leaf: &TaggedValue) -> Option<Self> {
        Some(match leaf.kind {
            Kind::NONE => Self::None,
            Kind::BOOL => Self::Bool(leaf.as_integer() != 0),
            Kind::INT => Self::Int(leaf.as_integer()),
            Kind::FLOAT => Self::Float(leaf.as_float()),
            // SAFETY: as the caller vouches. CPython gives no other text than UTF-8 (`PyUnicode_AsUTF8AndSize`).
            Kind::STR => Self::Str(unsafe { str::from_utf8_unchecked(leaf.bytes()) }),
            // SAFETY: as the caller vouches.
            Kind::BYTES => Self::Bytes(unsafe { leaf.bytes() }),
            _ => return None,
        })
    }
}
