//! Elements of tensors in JSON.

use crate::guard::Charge;
use crate::http::problem::Problem;
use bytes::{BufMut, BytesMut};
use hydrozoa_models::DataType;
use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// How deep arrays may be in each other.
const DEPTH: usize = 100;

/// The number of a shape's elements.
pub(crate) fn count(name: &str, shape: &[i64]) -> Result<usize, Problem> {
    let product = shape.iter().try_fold(1i64, |product, extent| product.checked_mul(*extent));
    let product = if shape.contains(&0) { Some(0) } else { product };
    match product.and_then(|count| usize::try_from(count).ok()) {
        Some(count) => Ok(count),
        None => Err(Problem::bad(format!(
            "invalid shape for input '{name}': shape {shape:?} causes total element count to exceed maximum size of {}",
            i64::MAX
        ))),
    }
}

/// The elements of an input in JSON, of which there must be `count`. They take at most `limit` bytes, which are charged.
pub(crate) fn elements(
    name: &str,
    data_type: DataType,
    count: usize,
    data: &RawValue,
    limit: usize,
    charge: &mut Charge,
) -> Result<BytesMut, Problem> {
    if matches!(data_type, DataType::Fp16 | DataType::Bf16) {
        return Err(Problem::bad(format!(
            "receiving {data_type} data via JSON is not supported. Please use the binary data format for input {name}"
        )));
    }
    let text = data.get();
    if !text.starts_with('[') {
        let words = format!("Unable to parse 'data': input '{name}' has no array there");
        return Err(Problem::bad(words));
    }
    let size = match data_type.size() {
        // Not more than the text can have: an element is a character and a comma.
        Some(size) => size.saturating_mul(count.min(text.len())),
        None => text.len().min(limit),
    };
    if size > limit {
        return Err(Problem::too_large(
            &format!("JSON input '{name}' has a byte_size ({size} bytes) that"),
            limit,
        ));
    }
    // Each text has four bytes for its length, and two quotes and a comma around it.
    charge.grow(if data_type.size().is_some() {
        size
    } else {
        size.saturating_mul(2).min(limit)
    })?;
    let mut elements =
        Elements { data_type, left: count, memory: BytesMut::with_capacity(size), limit };
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let read = Nested { elements: &mut elements, depth: 0 }.deserialize(&mut deserializer);
    read.map_err(|error| {
        Problem::bad(format!("Unable to parse 'data': input '{name}' of {data_type}: {error}"))
    })?;
    if elements.left > 0 {
        return Err(Problem::bad(format!("input '{name}': {MISMATCH}")));
    }
    Ok(elements.memory)
}

/// The number of elements of an array in JSON.
pub(crate) fn length(array: &RawValue) -> Result<usize, Problem> {
    struct Counted;

    impl<'de> Visitor<'de> for Counted {
        type Value = usize;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an array")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<usize, A::Error> {
            let mut count = 0;
            while list.next_element::<serde::de::IgnoredAny>()?.is_some() {
                count += 1;
            }
            Ok(count)
        }
    }
    serde_json::Deserializer::from_str(array.get())
        .deserialize_seq(Counted)
        .map_err(|error| Problem::bad(format!("an array cannot be read: {error}")))
}

const MISMATCH: &str = "Failed to parse 'data' field: shape does not match true shape";

struct Elements {
    data_type: DataType,
    left: usize,
    memory: BytesMut,
    limit: usize,
}

struct Nested<'e> {
    elements: &'e mut Elements,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Nested<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Nested<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.elements.data_type {
            DataType::Bool => "true or false",
            DataType::Bytes => "a string",
            DataType::Fp32 | DataType::Fp64 => "a number",
            _ => "an integer that fits",
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        if self.depth == DEPTH {
            return Err(A::Error::custom(format!(
                "JSON nesting depth exceeds maximum allowed limit ({DEPTH})"
            )));
        }
        let Self { elements, depth } = self;
        while list.next_element_seed(Nested { elements, depth: depth + 1 })?.is_some() {}
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        match self.elements.data_type {
            DataType::Bool => self.elements.next(&[u8::from(value)]),
            _ => Err(E::invalid_type(serde::de::Unexpected::Bool(value), &self)),
        }
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        match self.elements.data_type {
            DataType::Fp32 | DataType::Fp64 => self.elements.float(value as f64),
            _ => match self.elements.integer(i128::from(value)) {
                Some(outcome) => outcome,
                None => Err(E::invalid_value(serde::de::Unexpected::Unsigned(value), &self)),
            },
        }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        match self.elements.data_type {
            DataType::Fp32 | DataType::Fp64 => self.elements.float(value as f64),
            _ => match self.elements.integer(i128::from(value)) {
                Some(outcome) => outcome,
                None => Err(E::invalid_value(serde::de::Unexpected::Signed(value), &self)),
            },
        }
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        match self.elements.data_type {
            DataType::Fp32 | DataType::Fp64 => self.elements.float(value),
            _ => Err(E::invalid_type(serde::de::Unexpected::Float(value), &self)),
        }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        match (self.elements.data_type, u32::try_from(value.len())) {
            (DataType::Bytes, Ok(length)) => {
                if self.elements.memory.len() + 4 + value.len() > self.elements.limit {
                    return Err(E::custom(format!(
                        "the strings take more than {} bytes",
                        self.elements.limit
                    )));
                }
                self.elements.next(&length.to_le_bytes())?;
                self.elements.memory.put_slice(value.as_bytes());
                Ok(())
            }
            _ => Err(E::invalid_type(serde::de::Unexpected::Other("a string"), &self)),
        }
    }
}

impl Elements {
    /// Adds an element.
    fn next<E: Error>(&mut self, bytes: &[u8]) -> Result<(), E> {
        self.left = self.left.checked_sub(1).ok_or_else(|| E::custom(MISMATCH))?;
        self.memory.put_slice(bytes);
        Ok(())
    }

    fn float<E: Error>(&mut self, value: f64) -> Result<(), E> {
        match self.data_type {
            DataType::Fp32 => self.next(&(value as f32).to_le_bytes()),
            _ => self.next(&value.to_le_bytes()),
        }
    }

    /// `None` if it does not fit the type.
    fn integer<E: Error>(&mut self, value: i128) -> Option<Result<(), E>> {
        let fits = match self.data_type {
            DataType::Uint8 => u8::try_from(value).is_ok(),
            DataType::Uint16 => u16::try_from(value).is_ok(),
            DataType::Uint32 => u32::try_from(value).is_ok(),
            DataType::Uint64 => u64::try_from(value).is_ok(),
            DataType::Int8 => i8::try_from(value).is_ok(),
            DataType::Int16 => i16::try_from(value).is_ok(),
            DataType::Int32 => i32::try_from(value).is_ok(),
            DataType::Int64 => i64::try_from(value).is_ok(),
            _ => false,
        };
        // Two's complement: the low bytes are those of the smaller type.
        let size = self.data_type.size().filter(|_| fits)?;
        Some(self.next(&value.to_le_bytes()[..size]))
    }
}

#[cfg(test)]
mod tests {
    use super::elements;
    use crate::guard::Budget;
    use hydrozoa_models::DataType;
    use serde_json::value::RawValue;
    use std::sync::Arc;

    fn parsed(data_type: DataType, count: usize, text: &str) -> Result<Vec<u8>, String> {
        let data: &RawValue = serde_json::from_str(text).unwrap();
        let mut charge = Arc::new(Budget::new(1000, 1000)).account(None).charge();
        let parsed = elements("IN", data_type, count, data, 64, &mut charge);
        parsed.map(|memory| memory.to_vec()).map_err(|problem| problem.message)
    }

    #[test]
    fn elements_of_all_types_are_read() {
        let bytes = |values: &[&[u8]]| Ok(values.concat());
        for (data_type, text, expected) in [
            (DataType::Bool, "[true, false]", bytes(&[&[1, 0]])),
            (DataType::Uint8, "[[255], [0]]", bytes(&[&[255, 0]])),
            (DataType::Uint16, "[65535, 1]", bytes(&[&[255, 255, 1, 0]])),
            (DataType::Uint32, "[4294967295, 1]", bytes(&[&[255, 255, 255, 255, 1, 0, 0, 0]])),
            (DataType::Uint64, "[18446744073709551615, 1]", bytes(&[&[255; 8], &[1], &[0; 7]])),
            (DataType::Int8, "[-128, 127]", bytes(&[&[128, 127]])),
            (DataType::Int16, "[-1, 1]", bytes(&[&[255, 255, 1, 0]])),
            (DataType::Int32, "[-1, 1]", bytes(&[&[255; 4], &[1, 0, 0, 0]])),
            (
                DataType::Int64,
                "[-9223372036854775808, 1]",
                bytes(&[&i64::MIN.to_le_bytes(), &1i64.to_le_bytes()]),
            ),
            (
                DataType::Fp32,
                "[0.1, -3]",
                bytes(&[&0.1f32.to_le_bytes(), &(-3.0f32).to_le_bytes()]),
            ),
            (
                DataType::Fp64,
                "[[[0.1, 1e300]]]",
                bytes(&[&0.1f64.to_le_bytes(), &1e300f64.to_le_bytes()]),
            ),
            (
                DataType::Bytes,
                r#"["", "\u20ac"]"#,
                bytes(&[&[0; 4], &[3, 0, 0, 0], b"\xe2\x82\xac"]),
            ),
        ] {
            assert_eq!(parsed(data_type, 2, text), expected, "{data_type}");
        }
    }

    #[test]
    fn elements_that_do_not_fit_are_refused_by_name() {
        let deep = format!("{}1{}", "[".repeat(101), "]".repeat(101));
        for (data_type, text, words) in [
            (DataType::Fp32, "[1]", "shape does not match"),
            (DataType::Fp32, "[1, 2, 3]", "shape does not match"),
            (DataType::Fp32, "[1, \"2\"]", "expected a number"),
            (DataType::Fp32, "[1, null]", "expected a number"),
            (DataType::Fp32, "[1, {}]", "expected a number"),
            (DataType::Fp32, "1", "no array"),
            (DataType::Fp32, &deep, "JSON nesting depth"),
            (DataType::Int8, "[128, 0]", "an integer that fits"),
            (DataType::Uint8, "[-1, 0]", "an integer that fits"),
            (DataType::Int64, "[1.5, 0]", "an integer that fits"),
            (DataType::Int64, "[9223372036854775808, 0]", "an integer that fits"),
            (DataType::Bool, "[0, 1]", "true or false"),
            (DataType::Bytes, "[1, 2]", "a string"),
            (DataType::Fp16, "[1, 2]", "receiving FP16 data via JSON is not supported"),
            (DataType::Bf16, "[1, 2]", "receiving BF16 data via JSON is not supported"),
        ] {
            let message = parsed(data_type, 2, text).unwrap_err();
            assert!(message.contains(words) && message.contains("IN"), "{message}");
        }
        let long = format!("[\"{}\"]", "x".repeat(61));
        assert!(parsed(DataType::Bytes, 1, &long).unwrap_err().contains("more than 64 bytes"));
        let many = format!("[{}0]", "0,".repeat(16));
        assert!(parsed(DataType::Fp32, 17, &many).unwrap_err().contains("byte_size (68 bytes)"));
    }
}
