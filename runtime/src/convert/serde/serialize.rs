//! serde's data model as Python objects.

use super::failure::Failure;
use crate::convert::container::gather;
use crate::convert::{ToPython, build, bytes_leaf};
use crate::object::Object;
use crate::payload::table::Kind;
use crate::session::Session;
use serde::ser::{self, Serialize};

/// Makes one object, and how deep those inside may still be nested.
#[derive(Clone, Copy)]
pub(super) struct Serializer<'session> {
    pub(super) session: &'session Session,
    pub(super) depth: usize,
}

type Outcome<'session> = Result<Object<'session>, Failure>;

impl<'session> Serializer<'session> {
    fn inner(self) -> Result<Self, Failure> {
        let limit = super::DEPTH;
        let depth = self.depth.checked_sub(1).ok_or_else(|| {
            <Failure as ser::Error>::custom(format!("it is nested more than {limit} deep"))
        })?;
        Ok(Self { depth, ..self })
    }

    /// A container of `kind` whose parts come one by one; `variant` is put around it.
    fn container(
        self,
        kind: Kind,
        variant: Option<&'static str>,
    ) -> Result<Container<'session>, Failure> {
        Ok(Container { inner: self.inner()?, kind, variant, parts: Vec::new() })
    }

    fn tagged(self, variant: &str, content: Object<'session>) -> Outcome<'session> {
        let pair: [&dyn ToPython; 2] = [&variant, &content];
        Ok(gather(self.session, Kind::DICT, pair)?)
    }
}

macro_rules! scalars {
    ($($method:ident: $type:ty),*) => {$(
        fn $method(self, value: $type) -> Outcome<'session> {
            Ok(value.to_python(self.session)?)
        }
    )*};
}

impl<'session> ser::Serializer for Serializer<'session> {
    type Ok = Object<'session>;
    type Error = Failure;
    type SerializeSeq = Container<'session>;
    type SerializeTuple = Container<'session>;
    type SerializeTupleStruct = Container<'session>;
    type SerializeTupleVariant = Container<'session>;
    type SerializeMap = Container<'session>;
    type SerializeStruct = Container<'session>;
    type SerializeStructVariant = Container<'session>;

    scalars!(serialize_bool: bool, serialize_i8: i8, serialize_i16: i16, serialize_i32: i32,
        serialize_i64: i64, serialize_i128: i128, serialize_u8: u8, serialize_u16: u16,
        serialize_u32: u32, serialize_u64: u64, serialize_u128: u128, serialize_f32: f32,
        serialize_f64: f64, serialize_char: char, serialize_str: &str);

    fn serialize_bytes(self, bytes: &[u8]) -> Outcome<'session> {
        Ok(build(self.session, &bytes_leaf(Kind::BYTES, bytes))?)
    }

    fn serialize_none(self) -> Outcome<'session> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Outcome<'session> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Outcome<'session> {
        Ok(().to_python(self.session)?)
    }

    fn serialize_unit_struct(self, _name: &'static str) -> Outcome<'session> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Outcome<'session> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Outcome<'session> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Outcome<'session> {
        let content = value
            .serialize(self.inner()?)
            .map_err(|failure| failure.within(|| format!(".{variant}")))?;
        self.tagged(variant, content)
    }

    fn serialize_seq(self, _len: Option<usize>) -> Result<Container<'session>, Failure> {
        self.container(Kind::LIST, None)
    }

    fn serialize_tuple(self, _len: usize) -> Result<Container<'session>, Failure> {
        self.container(Kind::TUPLE, None)
    }

    fn serialize_tuple_struct(
        self,
        _name: &'static str,
        _len: usize,
    ) -> Result<Container<'session>, Failure> {
        self.container(Kind::TUPLE, None)
    }

    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Container<'session>, Failure> {
        self.container(Kind::TUPLE, Some(variant))
    }

    fn serialize_map(self, _len: Option<usize>) -> Result<Container<'session>, Failure> {
        self.container(Kind::DICT, None)
    }

    fn serialize_struct(
        self,
        _name: &'static str,
        _len: usize,
    ) -> Result<Container<'session>, Failure> {
        self.container(Kind::DICT, None)
    }

    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        _len: usize,
    ) -> Result<Container<'session>, Failure> {
        self.container(Kind::DICT, Some(variant))
    }
}

/// A container in the making.
pub(super) struct Container<'session> {
    inner: Serializer<'session>,
    kind: Kind,
    /// The enum variant that it is the content of.
    variant: Option<&'static str>,
    /// The items, or keys and values in turn.
    parts: Vec<Object<'session>>,
}

impl<'session> Container<'session> {
    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
        let index = self.parts.len();
        let item = value
            .serialize(self.inner)
            .map_err(|failure| failure.within(|| format!("[{index}]")))?;
        self.parts.push(item);
        Ok(())
    }

    fn field<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), Failure> {
        let value =
            value.serialize(self.inner).map_err(|failure| failure.within(|| format!(".{name}")))?;
        self.parts.extend([name.to_python(self.inner.session)?, value]);
        Ok(())
    }

    fn finish(self) -> Outcome<'session> {
        let parts = self.parts.iter().map(|part| part as &dyn ToPython);
        let container = gather(self.inner.session, self.kind, parts)?;
        match self.variant {
            Some(variant) => self.inner.tagged(variant, container),
            None => Ok(container),
        }
    }
}

macro_rules! of_items {
    ($($name:ident $method:ident),*) => {$(
        impl<'session> ser::$name for Container<'session> {
            type Ok = Object<'session>;
            type Error = Failure;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
                self.item(value)
            }

            fn end(self) -> Outcome<'session> {
                self.finish()
            }
        }
    )*};
}

of_items!(SerializeSeq serialize_element, SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field, SerializeTupleVariant serialize_field);

macro_rules! of_fields {
    ($($name:ident),*) => {$(
        impl<'session> ser::$name for Container<'session> {
            type Ok = Object<'session>;
            type Error = Failure;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Failure> {
                self.field(name, value)
            }

            fn end(self) -> Outcome<'session> {
                self.finish()
            }
        }
    )*};
}

of_fields!(SerializeStruct, SerializeStructVariant);

impl<'session> ser::SerializeMap for Container<'session> {
    type Ok = Object<'session>;
    type Error = Failure;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Failure> {
        self.parts.push(key.serialize(self.inner)?);
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Failure> {
        let Some(key) = self.parts.last() else {
            return Err(<Failure as ser::Error>::custom("a value came without its key"));
        };
        let value = value
            .serialize(self.inner)
            .map_err(|failure| failure.within(|| format!("[{key:?}]")))?;
        self.parts.push(value);
        Ok(())
    }

    fn end(self) -> Outcome<'session> {
        self.finish()
    }
}
