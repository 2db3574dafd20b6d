//! Any plain Python value, by value.

use super::container::{gather, pairs, sequence};
use super::{FromPython, Inspected, Integer, Plain, ToPython, build, bytes_leaf};
use crate::object::Object;
use crate::payload::table::Kind;
use crate::session::Session;
use crate::{Error, Result};

/// A Python value that consists of plain values only. It belongs to no interpreter.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// `None`.
    None,
    /// `bool`.
    Bool(bool),
    /// `int`.
    Int(Integer),
    /// `float`.
    Float(f64),
    /// `str` without lone surrogates.
    Str(String),
    /// `bytes` or `bytearray`.
    Bytes(Vec<u8>),
    /// `list`.
    List(Vec<Value>),
    /// `tuple`.
    Tuple(Vec<Value>),
    /// `dict`, in its order.
    Dict(Vec<(Value, Value)>),
}

/// The limit of nesting, as in JSON parsers: a list can contain itself, and each level takes stack.
const DEPTH: usize = 128;

impl ToPython for Value {
    fn to_python<'session>(&self, session: &'session Session) -> Result<Object<'session>> {
        match self {
            Self::None => ().to_python(session),
            Self::Bool(value) => value.to_python(session),
            Self::Int(value) => value.to_python(session),
            Self::Float(value) => value.to_python(session),
            Self::Str(value) => value.to_python(session),
            Self::Bytes(value) => build(session, &bytes_leaf(Kind::BYTES, value)),
            Self::List(items) => gather(session, Kind::LIST, items),
            Self::Tuple(items) => gather(session, Kind::TUPLE, items),
            Self::Dict(pairs) => {
                gather(session, Kind::DICT, pairs.iter().flat_map(|(key, value)| [key, value]))
            }
        }
    }

    fn as_plain(&self) -> Option<Plain<'_>> {
        Some(match self {
            Self::None => Plain::None,
            Self::Bool(value) => Plain::Bool(*value),
            Self::Int(value) => Plain::Int(value.try_into().ok()?),
            Self::Float(value) => Plain::Float(*value),
            Self::Str(value) => Plain::Str(value),
            Self::Bytes(value) => Plain::Bytes(value),
            Self::List(_) | Self::Tuple(_) | Self::Dict(_) => return None,
        })
    }
}

impl FromPython<'_> for Value {
    fn from_python(object: &Object<'_>) -> Result<Self> {
        convert(object, DEPTH)
    }
}

fn convert(object: &Object<'_>, depth: usize) -> Result<Value> {
    let Some(depth) = depth.checked_sub(1) else {
        return Err(Error::convert(
            "a plain value",
            object.type_name(),
            format!("it is nested more than {DEPTH} deep, or contains itself"),
        ));
    };
    let inspected = Inspected::new(object)?;
    Ok(match inspected.kind() {
        Kind::NONE => Value::None,
        Kind::BOOL => Value::Bool(inspected.leaf.as_integer() != 0),
        Kind::INT => Value::Int(Integer::from(inspected.leaf.as_integer())),
        Kind::BIG_INT => Value::Int(Integer::from_python(object)?),
        Kind::FLOAT => Value::Float(inspected.leaf.as_float()),
        Kind::STR => Value::Str(String::from_python(object)?),
        Kind::BYTES | Kind::BYTE_ARRAY => Value::Bytes(inspected.copied()?),
        Kind::LIST => Value::List(items(object, depth)?),
        Kind::TUPLE => Value::Tuple(items(object, depth)?),
        Kind::DICT => Value::Dict(
            pairs(object)?
                .map(|(key, value)| Ok((convert(&key, depth)?, convert(&value, depth)?)))
                .collect::<Result<_>>()?,
        ),
        _ => return Err(inspected.unexpected("a plain value")),
    })
}

fn items(object: &Object<'_>, depth: usize) -> Result<Vec<Value>> {
    sequence(object)?.iter().map(|item| convert(item, depth)).collect()
}
