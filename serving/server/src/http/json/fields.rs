//! Parameters in JSON, and lists that are bounded.

use crate::http::problem::Problem;
use hydrozoa_models::Parameter;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;
use std::marker::PhantomData;

/// Elements of a list, or fields of an object, in a request's description. A tensor's elements are not counted.
const MOST: usize = 1024;

/// A list of few elements. A long list of empty objects would take much more memory than its text.
#[derive(Debug)]
pub(crate) struct Few<T>(pub(crate) Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Few<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Elements<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Elements<T> {
            type Value = Few<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an array")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Few<T>, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = list.next_element()? {
                    if elements.len() == MOST {
                        return Err(Error::custom(format!(
                            "an array has more than {MOST} elements"
                        )));
                    }
                    elements.push(element);
                }
                Ok(Few(elements))
            }
        }
        deserializer.deserialize_seq(Elements(PhantomData))
    }
}

/// The fields of an object, in their order, not read yet.
#[derive(Debug)]
pub(crate) struct Fields<'a>(pub(crate) Vec<(String, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;

        impl<'de> Visitor<'de> for Pairs {
            type Value = Vec<(String, &'de RawValue)>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs: Self::Value = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    if pairs.len() == MOST {
                        return Err(Error::custom(format!(
                            "an object has more than {MOST} fields"
                        )));
                    }
                    if pairs.iter().any(|(known, _)| *known == name) {
                        return Err(Error::custom(format!("duplicate field `{name}`")));
                    }
                    pairs.push((name, value));
                }
                Ok(pairs)
            }
        }
        deserializer.deserialize_map(Pairs).map(Fields)
    }
}

impl Fields<'_> {
    /// A field of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&RawValue> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }

    /// A field's value, if there is one.
    pub(crate) fn read<T: for<'v> Deserialize<'v>>(
        &self,
        name: &str,
    ) -> Result<Option<T>, Problem> {
        self.get(name).map(|value| read(name, value)).transpose()
    }
}

/// A field's value.
pub(crate) fn read<'v, T: Deserialize<'v>>(name: &str, value: &'v RawValue) -> Result<T, Problem> {
    serde_json::from_str(value.get())
        .map_err(|error| Problem::bad(format!("Unable to parse '{name}': {error}")))
}

/// A value of a parameter that the model gets.
pub(crate) fn parameter(name: &str, value: &RawValue) -> Result<Parameter, Problem> {
    let text = value.get();
    let parameter = match text.as_bytes().first() {
        Some(b'"') => Parameter::Text(read(name, value)?),
        Some(b't' | b'f') => Parameter::Bool(read(name, value)?),
        Some(b'-' | b'0'..=b'9') => match text.parse() {
            Ok(number) => Parameter::Int(number),
            Err(_) => Parameter::Double(read(name, value)?),
        },
        _ => {
            return Err(Problem::bad(format!(
                "parameter '{name}' has invalid type. It should be either 'int', 'bool', or 'string'."
            )));
        }
    };
    Ok(parameter)
}
