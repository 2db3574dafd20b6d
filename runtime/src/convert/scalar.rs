//! None, bool, int, float, str.

use super::{FromPython, Inspected, Integer, Plain, ToPython, build, build_plain, bytes_leaf};
use crate::object::Object;
use crate::payload::table::Kind;
use crate::session::Session;
use crate::{Error, Result};

/// Types whose values all cross by themselves.
macro_rules! plain {
    ($($type:ty: $value:ident => $plain:expr;)*) => {$(
        impl ToPython for $type {
            fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
                let $value = self;
                build_plain(session, $plain)
            }

            #[inline]
            fn as_plain(&self) -> Option<Plain<'_>> {
                let $value = self;
                Some($plain)
            }
        }
    )*};
}

plain! {
    (): _none => Plain::None;
    bool: value => Plain::Bool(*value);
    f64: value => Plain::Float(*value);
    f32: value => Plain::Float((*value).into());
    str: value => Plain::Str(value);
    String: value => Plain::Str(value);
}

impl FromPython<'_> for () {
    fn from_python(object: &Object<'_>) -> Result<Self> {
        let inspected = Inspected::new(object)?;
        match inspected.kind() {
            Kind::NONE => Ok(()),
            _ => Err(inspected.unexpected("None")),
        }
    }
}

impl<T: ToPython> ToPython for Option<T> {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        match self {
            Some(value) => value.to_python(session),
            None => ().to_python(session),
        }
    }

    #[inline]
    fn as_plain(&self) -> Option<Plain<'_>> {
        match self {
            Some(value) => value.as_plain(),
            None => Some(Plain::None),
        }
    }
}

impl<'session, T: FromPython<'session>> FromPython<'session> for Option<T> {
    fn from_python(object: &Object<'session>) -> Result<Self> {
        if object.is_none() {
            return Ok(None);
        }
        T::from_python(object).map(Some)
    }
}

impl FromPython<'_> for bool {
    const PLAIN: bool = true;

    #[inline]
    fn from_plain(plain: Plain<'_>) -> Option<Self> {
        match plain {
            Plain::Bool(value) => Some(value),
            _ => None,
        }
    }

    fn from_python(object: &Object<'_>) -> Result<Self> {
        let inspected = Inspected::new(object)?;
        match inspected.kind() {
            Kind::BOOL => Ok(inspected.leaf.as_integer() != 0),
            // numpy's scalar (`bool_` before 2.0) cannot be a subclass of bool, which allows none.
            Kind::OTHER if matches!(object.type_name().as_str(), "bool" | "bool_") => {
                object.truth()
            }
            _ => Err(inspected.unexpected("bool")),
        }
    }
}

impl FromPython<'_> for f64 {
    const PLAIN: bool = true;

    #[inline]
    fn from_plain(plain: Plain<'_>) -> Option<Self> {
        match plain {
            Plain::Float(value) => Some(value),
            _ => None,
        }
    }

    fn from_python(object: &Object<'_>) -> Result<Self> {
        let inspected = Inspected::new(object)?;
        match inspected.kind() {
            Kind::FLOAT => Ok(inspected.leaf.as_float()),
            // float(int) rounds correctly and reports overflow, also for big ones.
            Kind::INT | Kind::BIG_INT | Kind::OTHER => {
                let float = object.call_method("__float__", ()).map_err(|error| {
                    missing(error, "__float__", || inspected.unexpected("float"))
                })?;
                let inspected = Inspected::new(&float)?;
                match inspected.kind() {
                    Kind::FLOAT => Ok(inspected.leaf.as_float()),
                    _ => Err(inspected.unexpected("float")),
                }
            }
            _ => Err(inspected.unexpected("float")),
        }
    }
}

impl FromPython<'_> for f32 {
    const PLAIN: bool = true;

    #[inline]
    fn from_plain(plain: Plain<'_>) -> Option<Self> {
        f64::from_plain(plain).map(|float| float as f32)
    }

    /// Rounds to the nearest `f32`.
    fn from_python(object: &Object<'_>) -> Result<Self> {
        f64::from_python(object).map(|float| float as f32)
    }
}

impl FromPython<'_> for String {
    const PLAIN: bool = true;

    #[inline]
    fn from_plain(plain: Plain<'_>) -> Option<Self> {
        match plain {
            // If memory is short, the copy fails later, in a function that can return an error.
            Plain::Str(text) => {
                let mut copy = Self::new();
                copy.try_reserve_exact(text.len()).ok()?;
                copy.push_str(text);
                Some(copy)
            }
            _ => None,
        }
    }

    /// Fails for lone surrogates, which have no UTF-8.
    fn from_python(object: &Object<'_>) -> Result<Self> {
        Inspected::new(object)?.text()
    }
}

impl ToPython for Integer {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        match i64::try_from(self) {
            Ok(integer) => build_plain(session, Plain::Int(integer)),
            Err(_) => build(session, &bytes_leaf(Kind::BIG_INT, self.to_le_bytes())),
        }
    }
}

impl FromPython<'_> for Integer {
    fn from_python(object: &Object<'_>) -> Result<Self> {
        integer(object, true)
    }
}

/// An int, a bool, or what `__index__` makes of another object (numpy's integers).
fn integer(object: &Object<'_>, index: bool) -> Result<Integer> {
    let inspected = Inspected::new(object)?;
    match inspected.kind() {
        Kind::INT | Kind::BOOL => Ok(Integer::from(inspected.leaf.as_integer())),
        Kind::BIG_INT => {
            let digits = object.digits()?;
            Ok(Integer::from_le_bytes(Inspected::new(&digits)?.bytes()))
        }
        Kind::OTHER if index => {
            let index = object
                .call_method("__index__", ())
                .map_err(|error| missing(error, "__index__", || inspected.unexpected("int")))?;
            integer(&index, false)
        }
        _ => Err(inspected.unexpected("int")),
    }
}

/// An object that lacks a conversion method is of the wrong type; whatever else the method raised
/// is its own failure.
fn missing(error: Error, method: &str, otherwise: impl FnOnce() -> Error) -> Error {
    match &error {
        Error::Python { type_name, message, .. }
            if type_name == "AttributeError" && message.contains(method) =>
        {
            otherwise()
        }
        _ => error,
    }
}

/// The integer that a value is.
#[inline]
fn as_integer(plain: Plain<'_>) -> Option<i64> {
    match plain {
        Plain::Int(value) => Some(value),
        Plain::Bool(value) => Some(value.into()),
        _ => None,
    }
}

macro_rules! integers {
    ($($type:ident),*) => {$(
        impl ToPython for $type {
            fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
                match i64::try_from(*self) {
                    Ok(value) => build_plain(session, Plain::Int(value)),
                    Err(_) => Integer::from(*self).to_python(session),
                }
            }

            #[inline]
            fn as_plain(&self) -> Option<Plain<'_>> {
                i64::try_from(*self).ok().map(Plain::Int)
            }

            integers!(slice $type);
        }

        impl FromPython<'_> for $type {
            fn from_python(object: &Object<'_>) -> Result<Self> {
                // This finds most. Values out of range are reported below.
                let small = Inspected::new(object)?.plain().and_then(Self::from_plain);
                match small {
                    Some(value) => Ok(value),
                    None => <$type>::try_from(&integer(object, true)?).map_err(|out_of_range| {
                        Error::convert(stringify!($type), "int", out_of_range.to_string())
                    }),
                }
            }

            const PLAIN: bool = true;

            #[inline]
            fn from_plain(plain: Plain<'_>) -> Option<Self> {
                as_integer(plain)?.try_into().ok()
            }

            integers!(vector $type);
        }
    )*};
    // A list of bytes is `bytes`.
    (slice u8) => {
        fn slice_to_python<'session>(
            items: &[Self],
            session: &'session Session,
        ) -> Result<Object<'session>> {
            build_plain(session, Plain::Bytes(items))
        }
    };
    (slice $type:ident) => {};
    (vector u8) => {
        fn vec_from_python(object: &Object<'_>) -> Result<Vec<Self>> {
            let inspected = Inspected::new(object)?;
            match inspected.kind() {
                Kind::BYTES | Kind::BYTE_ARRAY => inspected.copied(),
                Kind::LIST | Kind::TUPLE | Kind::OTHER => {
                    super::sequence::items(object)?.iter().map(Self::from_python).collect()
                }
                _ => Err(inspected.unexpected("bytes")),
            }
        }
    };
    (vector $type:ident) => {};
}

integers!(i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize);
