//! [`Value`] and [`Integer`] in serde's data model.

use crate::convert::{Integer, Value};
use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::ser::{Error, Serialize, SerializeMap, SerializeTuple, Serializer};
use std::fmt;

impl Serialize for Integer {
    /// In the fewest bits that serde has a number for.
    ///
    /// # Errors
    ///
    /// If it has more than 128 bits.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Ok(value) = i64::try_from(self) {
            serializer.serialize_i64(value)
        } else if let Ok(value) = u64::try_from(self) {
            serializer.serialize_u64(value)
        } else if let Ok(value) = i128::try_from(self) {
            serializer.serialize_i128(value)
        } else if let Ok(value) = u128::try_from(self) {
            serializer.serialize_u128(value)
        } else {
            Err(S::Error::custom("the integer has more than 128 bits"))
        }
    }
}

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::Int(integer) => Ok(integer),
            other => Err(de::Error::custom(format!("{other:?} is not an integer"))),
        }
    }
}

impl Serialize for Value {
    /// Plainly, without the name of the variant: `Value::Int` as a number.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_none(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => value.serialize(serializer),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Str(value) => serializer.serialize_str(value),
            Self::Bytes(value) => serializer.serialize_bytes(value),
            Self::List(items) => items.serialize(serializer),
            Self::Tuple(items) => {
                let mut tuple = serializer.serialize_tuple(items.len())?;
                items.iter().try_for_each(|item| tuple.serialize_element(item))?;
                tuple.end()
            }
            Self::Dict(pairs) => {
                let mut map = serializer.serialize_map(Some(pairs.len()))?;
                pairs.iter().try_for_each(|(key, value)| map.serialize_entry(key, value))?;
                map.end()
            }
        }
    }
}

impl<'de> Deserialize<'de> for Value {
    /// From a format that describes its data. A tuple becomes a list: serde's data model, when it is read,
    /// does not tell them apart.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Plain)
    }
}

struct Plain;

macro_rules! visit {
    ($($method:ident($type:ty) => $make:expr;)*) => {$(
        fn $method<E: de::Error>(self, value: $type) -> Result<Value, E> {
            Ok($make(value))
        }
    )*};
}

impl<'de> Visitor<'de> for Plain {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a plain value")
    }

    visit! {
        visit_bool(bool) => Value::Bool;
        visit_i64(i64) => |value| Value::Int(Integer::from(value));
        visit_u64(u64) => |value| Value::Int(Integer::from(value));
        visit_i128(i128) => |value| Value::Int(Integer::from(value));
        visit_u128(u128) => |value| Value::Int(Integer::from(value));
        visit_f64(f64) => Value::Float;
        visit_str(&str) => |value: &str| Value::Str(value.to_owned());
        visit_string(String) => Value::Str;
        visit_bytes(&[u8]) => |value: &[u8]| Value::Bytes(value.to_vec());
        visit_byte_buf(Vec<u8>) => Value::Bytes;
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::None)
    }

    fn visit_none<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(
        self,
        deserializer: D,
    ) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_seq<A: de::SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: de::MapAccess<'de>>(self, mut pairs: A) -> Result<Value, A::Error> {
        let mut dict = Vec::new();
        while let Some(pair) = pairs.next_entry()? {
            dict.push(pair);
        }
        Ok(Value::Dict(dict))
    }
}
