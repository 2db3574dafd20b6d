//! Python objects as serde's data model.

use super::failure::Failure;
use crate::convert::container::{pairs, sequence};
use crate::convert::{FromPython, Inspected, Integer};
use crate::object::Object;
use crate::payload::table::Kind;
use serde::de::{self, DeserializeSeed, Error as _, Visitor, value::StringDeserializer};
use serde::forward_to_deserialize_any;

/// One object, and how deep those inside may still be nested.
pub(super) struct Deserializer<'object, 'session> {
    pub(super) object: &'object Object<'session>,
    pub(super) depth: usize,
}

impl Deserializer<'_, '_> {
    /// How deep the items may be nested.
    fn inner_depth(&self) -> Result<usize, Failure> {
        self.depth.checked_sub(1).ok_or_else(|| {
            let limit = super::DEPTH;
            Failure::custom(format!("it is nested more than {limit} deep, or contains itself"))
        })
    }

    fn items<'de, V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, Failure> {
        let depth = self.inner_depth()?;
        let items = sequence(self.object)?;
        let mut access = Items { items: items.iter().enumerate(), depth };
        let value = visitor.visit_seq(&mut access)?;
        match access.items.len() {
            0 => Ok(value),
            _ => Err(Failure::custom(format!("it has {} items, which are too many", items.len()))),
        }
    }

    fn pairs<'de, V: Visitor<'de>>(&self, visitor: V) -> Result<V::Value, Failure> {
        let depth = self.inner_depth()?;
        visitor.visit_map(Pairs { pairs: pairs(self.object)?, current: None, depth })
    }
}

fn visit_integer<'de, V: Visitor<'de>>(integer: &Integer, visitor: V) -> Result<V::Value, Failure> {
    if let Ok(value) = i64::try_from(integer) {
        visitor.visit_i64(value)
    } else if let Ok(value) = u64::try_from(integer) {
        visitor.visit_u64(value)
    } else if let Ok(value) = i128::try_from(integer) {
        visitor.visit_i128(value)
    } else if let Ok(value) = u128::try_from(integer) {
        visitor.visit_u128(value)
    } else {
        Err(Failure::custom("the integer has more than 128 bits"))
    }
}

impl<'de> de::Deserializer<'de> for Deserializer<'_, '_> {
    type Error = Failure;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        let inspected = Inspected::new(self.object)?;
        match inspected.kind() {
            Kind::NONE => visitor.visit_unit(),
            Kind::BOOL => visitor.visit_bool(inspected.leaf.as_integer() != 0),
            Kind::INT => visitor.visit_i64(inspected.leaf.as_integer()),
            Kind::BIG_INT => visit_integer(&Integer::from_python(self.object)?, visitor),
            Kind::FLOAT => visitor.visit_f64(inspected.leaf.as_float()),
            Kind::STR => visitor.visit_string(String::from_python(self.object)?),
            Kind::BYTES | Kind::BYTE_ARRAY => visitor.visit_byte_buf(inspected.copied()?),
            Kind::LIST | Kind::TUPLE => self.items(visitor),
            Kind::DICT => self.pairs(visitor),
            _ => Err(inspected.unexpected("plain value").into()),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        match self.object.is_none() {
            true => visitor.visit_none(),
            false => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        visitor.visit_newtype_struct(self)
    }

    /// `Vec<u8>` is a sequence to serde, and `bytes` to Python.
    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        let inspected = Inspected::new(self.object)?;
        match inspected.kind() {
            Kind::BYTES | Kind::BYTE_ARRAY => {
                let bytes = inspected.copied()?.into_iter();
                visitor.visit_seq(de::value::SeqDeserializer::new(bytes))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(
        self,
        _len: usize,
        visitor: V,
    ) -> Result<V::Value, Failure> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        let inspected = Inspected::new(self.object)?;
        let depth = self.inner_depth()?;
        match inspected.kind() {
            Kind::STR => {
                let name = String::from_python(self.object)?;
                visitor.visit_enum(Variant { name, content: None, depth })
            }
            Kind::DICT => {
                let mut pairs = pairs(self.object)?;
                let (Some((key, content)), None) = (pairs.next(), pairs.next()) else {
                    let reason = "an enum variant is a dict of one entry, the variant's name";
                    return Err(Failure::custom(reason));
                };
                let name = String::from_python(&key)?;
                let step = name.clone();
                visitor
                    .visit_enum(Variant { name, content: Some(content), depth })
                    .map_err(|failure| failure.within(|| format!(".{step}")))
            }
            _ => Err(inspected.unexpected("str or dict of an enum variant").into()),
        }
    }

    /// An ignored object need not be a plain value.
    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Failure> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct tuple_struct map struct identifier
    }
}

struct Items<I> {
    items: I,
    depth: usize,
}

impl<'de, 'object, 'session: 'object, I> de::SeqAccess<'de> for &mut Items<I>
where
    I: ExactSizeIterator<Item = (usize, &'object Object<'session>)>,
{
    type Error = Failure;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Failure> {
        let Some((index, object)) = self.items.next() else { return Ok(None) };
        seed.deserialize(Deserializer { object, depth: self.depth })
            .map(Some)
            .map_err(|failure| failure.within(|| format!("[{index}]")))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Pairs<'session, I> {
    pairs: I,
    /// The pair of which the key has been given.
    current: Option<(Object<'session>, Object<'session>)>,
    depth: usize,
}

/// A key as part of a path: `.name` for an identifier, else `[repr]`.
fn step(key: &Object<'_>) -> String {
    match String::from_python(key) {
        Ok(name) if !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_') => {
            format!(".{name}")
        }
        _ => format!("[{key:?}]"),
    }
}

impl<'de, 'session, I> de::MapAccess<'de> for Pairs<'session, I>
where
    I: Iterator<Item = (Object<'session>, Object<'session>)>,
{
    type Error = Failure;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Failure> {
        self.current = self.pairs.next();
        let Some((key, _)) = &self.current else { return Ok(None) };
        seed.deserialize(Deserializer { object: key, depth: self.depth })
            .map(Some)
            .map_err(|failure| failure.within(|| step(key)))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Failure> {
        let (key, value) = self
            .current
            .take()
            .ok_or_else(|| Failure::custom("a value was asked for without its key"))?;
        seed.deserialize(Deserializer { object: &value, depth: self.depth })
            .map_err(|failure| failure.within(|| step(&key)))
    }
}

/// A variant's name, and what it contains if it is not a bare name.
struct Variant<'session> {
    name: String,
    content: Option<Object<'session>>,
    depth: usize,
}

/// The content of a variant.
struct Content<'session> {
    content: Option<Object<'session>>,
    depth: usize,
}

impl<'de, 'session> de::EnumAccess<'de> for Variant<'session> {
    type Error = Failure;
    type Variant = Content<'session>;

    fn variant_seed<S: DeserializeSeed<'de>>(
        self,
        seed: S,
    ) -> Result<(S::Value, Self::Variant), Failure> {
        let name: StringDeserializer<Failure> = de::IntoDeserializer::into_deserializer(self.name);
        Ok((seed.deserialize(name)?, Content { content: self.content, depth: self.depth }))
    }
}

impl<'session> Content<'session> {
    fn object(&self) -> Result<Deserializer<'_, 'session>, Failure> {
        let missing = || Failure::custom("the variant has content: it is a dict, not a str");
        let object = self.content.as_ref().ok_or_else(missing)?;
        Ok(Deserializer { object, depth: self.depth })
    }
}

impl<'de> de::VariantAccess<'de> for Content<'_> {
    type Error = Failure;

    fn unit_variant(self) -> Result<(), Failure> {
        match self.content.is_none_or(|content| content.is_none()) {
            true => Ok(()),
            false => Err(Failure::custom("the variant has no content")),
        }
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, Failure> {
        seed.deserialize(self.object()?)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Failure> {
        de::Deserializer::deserialize_tuple(self.object()?, len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Failure> {
        de::Deserializer::deserialize_map(self.object()?, visitor)
    }
}
