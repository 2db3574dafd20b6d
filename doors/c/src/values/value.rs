//! Values on their way to Python.

use super::object_handle::hz_object;
use crate::boundary::{Failure, Result, array, given, text};
use runtime::convert::Integer;
use runtime::{Handle, Named, Object, Positional, Session, ToArguments, ToKeywords, ToPython};
use std::ffi::c_char;

/// The kind of an hz_value.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum hz_value_kind {
    /// None.
    HZ_VALUE_NONE = 0,
    /// bool: `data.integer` is 0 or 1.
    HZ_VALUE_BOOL = 1,
    /// int: `data.integer`.
    HZ_VALUE_INT = 2,
    /// float: `data.real`.
    HZ_VALUE_FLOAT = 3,
    /// str: `len` bytes of UTF-8 at `data.text`.
    HZ_VALUE_STR = 4,
    /// bytes: `len` bytes at `data.bytes`.
    HZ_VALUE_BYTES = 5,
    /// list: `len` values at `data.items`.
    HZ_VALUE_LIST = 6,
    /// tuple: `len` values at `data.items`.
    HZ_VALUE_TUPLE = 7,
    /// dict: `len` pairs, so 2 * `len` values, at `data.items`: a key, its value, the next key.
    HZ_VALUE_DICT = 8,
    /// int of any size: `len` bytes at `data.bytes`, two's complement, the least significant first.
    HZ_VALUE_BIG_INT = 9,
    /// Any object: `data.object`, of the interpreter that gets it.
    HZ_VALUE_OBJECT = 10,
}

use hz_value_kind as Kind;

impl Kind {
    const ALL: [Self; 11] = [
        Self::HZ_VALUE_NONE,
        Self::HZ_VALUE_BOOL,
        Self::HZ_VALUE_INT,
        Self::HZ_VALUE_FLOAT,
        Self::HZ_VALUE_STR,
        Self::HZ_VALUE_BYTES,
        Self::HZ_VALUE_LIST,
        Self::HZ_VALUE_TUPLE,
        Self::HZ_VALUE_DICT,
        Self::HZ_VALUE_BIG_INT,
        Self::HZ_VALUE_OBJECT,
    ];

    /// The kind of a number that a caller has written.
    fn of(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u32 == number)
    }
}

/// The data of an hz_value. Its kind says which member is set.
#[repr(C)]
#[derive(Clone, Copy)]
pub union hz_value_data {
    pub integer: i64,
    pub real: f64,
    pub text: *const c_char,
    pub bytes: *const u8,
    pub items: *const hz_value,
    pub object: *const hz_object,
}

/// A value. It refers to memory of its maker's, and owns nothing.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hz_value {
    /// An hz_value_kind.
    pub kind: u32,
    /// Depends on the kind. 0 for those that need none.
    pub len: usize,
    /// Depends on the kind.
    pub data: hz_value_data,
}

/// An argument with its name.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct hz_keyword {
    /// UTF-8, ends with NUL.
    pub name: *const c_char,
    pub value: hz_value,
}

/// A checked value.
pub(crate) enum Argument<'a> {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(&'a str),
    Bytes(&'a [u8]),
    List(Vec<Argument<'a>>),
    Tuple(Vec<Argument<'a>>),
    Dict(Vec<(Argument<'a>, Argument<'a>)>),
    BigInt(Integer),
    Object(&'a Handle),
}

/// The limit of nesting: a value of C can contain itself.
const DEPTH: usize = 128;

impl<'a> Argument<'a> {
    /// # Safety
    ///
    /// The value's data is of the kind that it states, and stays unchanged while the result is used.
    pub(crate) unsafe fn of(value: &hz_value) -> Result<Self> {
        // SAFETY: as the caller vouches.
        unsafe { Self::nested(value, DEPTH) }
    }

    /// # Safety
    ///
    /// As [`Argument::of`], for each of the values.
    pub(crate) unsafe fn all(values: &[hz_value]) -> Result<Vec<Self>> {
        // SAFETY: as the caller vouches.
        values.iter().map(|value| unsafe { Self::of(value) }).collect()
    }

    unsafe fn nested(value: &hz_value, depth: usize) -> Result<Self> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(Failure::argument(format!(
                "a value is nested more than {DEPTH} deep, or contains itself"
            )));
        };
        let (data, len) = (value.data, value.len);
        // SAFETY: the caller vouches that the members which the kinds name are set.
        unsafe {
            let bytes = || array(data.bytes, len, "the data of a value");
            let items = |len| -> Result<Vec<Self>> {
                let items: &[hz_value] = array(data.items, len, "the items of a value")?;
                items.iter().map(|item| Self::nested(item, depth)).collect()
            };
            let Some(kind) = Kind::of(value.kind) else {
                let message = format!("a value has the unknown kind {}", value.kind);
                return Err(Failure::argument(message));
            };
            Ok(match kind {
                Kind::HZ_VALUE_NONE => Self::None,
                Kind::HZ_VALUE_BOOL => Self::Bool(data.integer != 0),
                Kind::HZ_VALUE_INT => Self::Int(data.integer),
                Kind::HZ_VALUE_FLOAT => Self::Float(data.real),
                Kind::HZ_VALUE_STR => Self::Str(str::from_utf8(bytes()?).map_err(|error| {
                    Failure::argument(format!("a value of HZ_VALUE_STR is not UTF-8: {error}"))
                })?),
                Kind::HZ_VALUE_BYTES => Self::Bytes(bytes()?),
                Kind::HZ_VALUE_LIST => Self::List(items(len)?),
                Kind::HZ_VALUE_TUPLE => Self::Tuple(items(len)?),
                Kind::HZ_VALUE_DICT => {
                    let count = len.saturating_mul(2);
                    let mut items = items(count)?.into_iter();
                    let mut pairs = Vec::with_capacity(len);
                    while let (Some(key), Some(value)) = (items.next(), items.next()) {
                        pairs.push((key, value));
                    }
                    Self::Dict(pairs)
                }
                Kind::HZ_VALUE_BIG_INT => Self::BigInt(Integer::from_le_bytes(bytes()?)),
                Kind::HZ_VALUE_OBJECT => {
                    Self::Object(given(data.object.as_ref(), "the object of a value")?.handle())
                }
            })
        }
    }
}

impl ToPython for Argument<'_> {
    fn to_python<'session>(&self, session: &'session Session) -> runtime::Result<Object<'session>> {
        match self {
            Self::None => session.none(),
            Self::Bool(value) => session.object_from(value),
            Self::Int(value) => session.object_from(value),
            Self::Float(value) => session.object_from(value),
            Self::Str(text) => session.object_from(*text),
            Self::Bytes(bytes) => session.object_from(*bytes),
            Self::List(items) => session.object_from(items),
            Self::Tuple(items) => session.import("builtins")?.call_method("tuple", (items,)),
            Self::Dict(pairs) => session.import("builtins")?.call_method("dict", (pairs,)),
            Self::BigInt(value) => session.object_from(value),
            Self::Object(handle) => handle.attach(session),
        }
    }
}

/// The arguments of a call. Those without others in them cross with the call itself.
pub(crate) struct Arguments<'a> {
    positional: Vec<Argument<'a>>,
    named: Vec<(&'a str, Argument<'a>)>,
}

impl<'a> Arguments<'a> {
    /// # Safety
    ///
    /// The pointers refer to so many values, which are as [`Argument::of`] wants them.
    pub(crate) unsafe fn new(
        arguments: *const hz_value,
        count: usize,
        keywords: *const hz_keyword,
        keyword_count: usize,
    ) -> Result<Self> {
        // SAFETY: as the caller vouches.
        unsafe {
            let positional = Argument::all(array(arguments, count, "arguments")?)?;
            let keywords: &[hz_keyword] = array(keywords, keyword_count, "keywords")?;
            let named = keywords.iter().map(|keyword| {
                Ok((text(keyword.name, "the name of a keyword")?, Argument::of(&keyword.value)?))
            });
            Ok(Self { positional, named: named.collect::<Result<_>>()? })
        }
    }

    pub(crate) fn positional(&self) -> PositionalArguments<'_, 'a> {
        PositionalArguments(&self.positional)
    }

    pub(crate) fn named(&self) -> NamedArguments<'_, 'a> {
        NamedArguments(&self.named)
    }
}

pub(crate) struct PositionalArguments<'l, 'a>(&'l [Argument<'a>]);

pub(crate) struct NamedArguments<'l, 'a>(&'l [(&'a str, Argument<'a>)]);

impl ToArguments for PositionalArguments<'_, '_> {
    fn append_to<'b>(&'b self, arguments: &mut Positional<'_, 'b>) -> runtime::Result<()> {
        self.0.iter().try_for_each(|argument| match argument {
            Argument::None => arguments.push(&()),
            Argument::Bool(value) => arguments.push(value),
            Argument::Int(value) => arguments.push(value),
            Argument::Float(value) => arguments.push(value),
            Argument::Str(text) => arguments.push(*text),
            Argument::Bytes(bytes) => arguments.push(*bytes),
            other => arguments.push(other),
        })
    }
}

impl ToKeywords for NamedArguments<'_, '_> {
    fn append_to<'b>(&'b self, arguments: &mut Named<'_, 'b>) -> runtime::Result<()> {
        self.0.iter().try_for_each(|(name, argument)| match argument {
            Argument::None => arguments.push(name, &()),
            Argument::Bool(value) => arguments.push(name, value),
            Argument::Int(value) => arguments.push(name, value),
            Argument::Float(value) => arguments.push(name, value),
            Argument::Str(text) => arguments.push(name, *text),
            Argument::Bytes(bytes) => arguments.push(name, *bytes),
            other => arguments.push(name, other),
        })
    }
}
