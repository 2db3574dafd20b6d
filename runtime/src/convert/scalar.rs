//! None, bool, int, float, str.

use super::{FromPython, Inspected, Integer, ToPython, build, bytes_leaf};
use crate::object::Object;
use crate::payload::table::{Kind, Leaf};
use crate::session::Session;
use crate::{Error, Result};

impl ToPython for () {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        build(session, &Leaf::new(Kind::NONE))
    }
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
}

impl<'session, T: FromPython<'session>> FromPython<'session> for Option<T> {
    fn from_python(object: &Object<'session>) -> Result<Self> {
        if object.is_none() {
            return Ok(None);
        }
        T::from_python(object).map(Some)
    }
}

impl ToPython for bool {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        let leaf = Leaf { integer: i64::from(*self), ..Leaf::new(Kind::BOOL) };
        build(session, &leaf)
    }
}

impl FromPython<'_> for bool {
    fn from_python(object: &Object<'_>) -> Result<Self> {
        let inspected = Inspected::new(object)?;
        match inspected.kind() {
            Kind::BOOL => Ok(inspected.leaf.integer != 0),
            // numpy's scalar (`bool_` before 2.0) is no subclass of bool, which cannot have any.
            Kind::OTHER if matches!(object.type_name().as_str(), "bool" | "bool_") => {
                object.truth()
            }
            _ => Err(inspected.unexpected("bool")),
        }
    }
}

impl ToPython for f64 {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        let leaf = Leaf { float: *self, ..Leaf::new(Kind::FLOAT) };
        build(session, &leaf)
    }
}

impl FromPython<'_> for f64 {
    fn from_python(object: &Object<'_>) -> Result<Self> {
        let inspected = Inspected::new(object)?;
        match inspected.kind() {
            Kind::FLOAT => Ok(inspected.leaf.float),
            // float(int) rounds correctly and reports overflow, also for big ones.
            Kind::INT | Kind::BIG_INT | Kind::OTHER => {
                let float = object.call_method("__float__", ()).map_err(|error| {
                    missing(error, "__float__", || inspected.unexpected("float"))
                })?;
                let inspected = Inspected::new(&float)?;
                match inspected.kind() {
                    Kind::FLOAT => Ok(inspected.leaf.float),
                    _ => Err(inspected.unexpected("float")),
                }
            }
            _ => Err(inspected.unexpected("float")),
        }
    }
}

impl ToPython for f32 {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        f64::from(*self).to_python(session)
    }
}

impl FromPython<'_> for f32 {
    /// Rounds to the nearest `f32`.
    fn from_python(object: &Object<'_>) -> Result<Self> {
        f64::from_python(object).map(|float| float as f32)
    }
}

impl ToPython for str {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        build(session, &bytes_leaf(Kind::STR, self.as_bytes()))
    }
}

impl ToPython for String {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        self.as_str().to_python(session)
    }
}

impl FromPython<'_> for String {
    /// Fails for lone surrogates, which have no UTF-8.
    fn from_python(object: &Object<'_>) -> Result<Self> {
        let inspected = Inspected::new(object)?;
        match inspected.kind() {
            Kind::STR => std::str::from_utf8(inspected.bytes())
                .map(str::to_owned)
                .map_err(|error| Error::convert("str", "str", error.to_string())),
            _ => Err(inspected.unexpected("str")),
        }
    }
}

impl ToPython for Integer {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        match i64::try_from(self) {
            Ok(integer) => build(session, &Leaf { integer, ..Leaf::new(Kind::INT) }),
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
        Kind::INT | Kind::BOOL => Ok(Integer::from(inspected.leaf.integer)),
        Kind::BIG_INT => Ok(Integer::from_le_bytes(inspected.bytes())),
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

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl ToPython for $type {
            fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
                Integer::from(*self).to_python(session)
            }
        }

        impl FromPython<'_> for $type {
            fn from_python(object: &Object<'_>) -> Result<Self> {
                <$type>::try_from(&integer(object, true)?).map_err(|out_of_range| {
                    Error::convert(stringify!($type), "int", out_of_range.to_string())
                })
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, i128, isize, u16, u32, u64, u128, usize);

impl ToPython for u8 {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        Integer::from(*self).to_python(session)
    }

    fn slice_to_python<'session>(
        items: &[Self],
        session: &'session Session,
    ) -> Result<Object<'session>> {
        build(session, &bytes_leaf(Kind::BYTES, items))
    }
}

impl FromPython<'_> for u8 {
    fn from_python(object: &Object<'_>) -> Result<Self> {
        Self::try_from(&integer(object, true)?)
            .map_err(|out_of_range| Error::convert("u8", "int", out_of_range.to_string()))
    }

    fn vec_from_python(object: &Object<'_>) -> Result<Vec<Self>> {
        let inspected = Inspected::new(object)?;
        match inspected.kind() {
            Kind::BYTES | Kind::BYTE_ARRAY => Ok(inspected.bytes().to_vec()),
            Kind::LIST | Kind::TUPLE | Kind::OTHER => {
                super::sequence::items(object)?.iter().map(Self::from_python).collect()
            }
            _ => Err(inspected.unexpected("bytes")),
        }
    }
}
