//! Elements of tensors as JSON.

use crate::http::problem::Problem;
use hydrozoa_models::{DataType, Output, Parameter, decode_bytes};
use std::io::Write as _;

/// Writes an output's elements as an array, or as a value if there is one element and `bare` is wanted.
pub(crate) fn elements(json: &mut Vec<u8>, output: &Output, bare: bool) -> Result<(), Problem> {
    let data = &output.data[..];
    let mismatch = || {
        Problem::new(
            axum::http::StatusCode::INTERNAL_SERVER_ERROR,
            format!(
                "Failed to write 'data' field: output tensor shape does not match size of output for '{}'",
                output.name
            ),
        )
    };
    let extents = output.shape.iter().map(|extent| usize::try_from(*extent).ok());
    let count = extents
        .into_iter()
        .try_fold(1usize, |product, extent| product.checked_mul(extent?))
        .ok_or_else(mismatch)?;
    let bare = bare && count == 1;
    if !bare {
        json.push(b'[');
    }
    match (output.data_type, output.data_type.size()) {
        (DataType::Fp16 | DataType::Bf16, _) => {
            return Err(Problem::bad(format!(
                "sending {} data via JSON is not supported. Please use the binary data format for output '{}'",
                output.data_type, output.name
            )));
        }
        (_, None) => {
            let texts = decode_bytes(data).ok().filter(|texts| texts.len() == count);
            let texts = texts.ok_or_else(mismatch)?;
            list(json, texts.into_iter(), |json, text| {
                let text = std::str::from_utf8(text).map_err(|_| {
                    Problem::bad(format!(
                        "output '{}' has bytes that are not UTF-8. Please use the binary data format for it",
                        output.name
                    ))
                })?;
                put(json, text);
                Ok(())
            })?;
        }
        (data_type, Some(size)) => {
            if Some(data.len()) != count.checked_mul(size) {
                return Err(mismatch());
            }
            numbers(json, data_type, data);
        }
    }
    if !bare {
        json.push(b']');
    }
    Ok(())
}

fn list<T>(
    json: &mut Vec<u8>,
    elements: impl Iterator<Item = T>,
    mut write: impl FnMut(&mut Vec<u8>, T) -> Result<(), Problem>,
) -> Result<(), Problem> {
    for (place, element) in elements.enumerate() {
        if place > 0 {
            json.push(b',');
        }
        write(json, element)?;
    }
    Ok(())
}

fn numbers(json: &mut Vec<u8>, data_type: DataType, data: &[u8]) {
    macro_rules! integers {
        ($type:ty) => {
            all(json, data, |json, bytes| put(json, &<$type>::from_le_bytes(bytes)))
        };
    }
    match data_type {
        DataType::Uint8 => integers!(u8),
        DataType::Uint16 => integers!(u16),
        DataType::Uint32 => integers!(u32),
        DataType::Uint64 => integers!(u64),
        DataType::Int8 => integers!(i8),
        DataType::Int16 => integers!(i16),
        DataType::Int32 => integers!(i32),
        DataType::Int64 => integers!(i64),
        DataType::Fp32 => all(json, data, |json, bytes| {
            let value = f32::from_le_bytes(bytes);
            if value.is_finite() { put(json, &value) } else { unusual(json, value.into()) }
        }),
        DataType::Fp64 => all(json, data, |json, bytes| float(json, f64::from_le_bytes(bytes))),
        _ => all(json, data, |json, [byte]: [u8; 1]| put(json, &(byte != 0))),
    }
}

fn all<const SIZE: usize>(
    json: &mut Vec<u8>,
    data: &[u8],
    mut write: impl FnMut(&mut Vec<u8>, [u8; SIZE]),
) {
    for (place, bytes) in data.as_chunks::<SIZE>().0.iter().enumerate() {
        if place > 0 {
            json.push(b',');
        }
        write(json, *bytes);
    }
}

/// Writes a value. A number, a text or a truth value always has a form in JSON.
pub(crate) fn put<T: serde::Serialize + ?Sized>(json: &mut Vec<u8>, value: &T) {
    serde_json::to_writer(json, value).expect("memory takes it");
}

fn float(json: &mut Vec<u8>, value: f64) {
    if value.is_finite() { put(json, &value) } else { unusual(json, value) }
}

/// Writes what JSON has no numbers for by the names that Triton and Python's `json` use.
fn unusual(json: &mut Vec<u8>, value: f64) {
    let name = match value {
        f64::INFINITY => "Infinity",
        f64::NEG_INFINITY => "-Infinity",
        _ => "NaN",
    };
    json.write_all(name.as_bytes()).expect("memory takes it");
}

/// Writes the value of a parameter.
pub(crate) fn parameter(json: &mut Vec<u8>, parameter: &Parameter) {
    match parameter {
        Parameter::Bool(value) => put(json, value),
        Parameter::Int(value) => put(json, value),
        Parameter::Double(value) => float(json, *value),
        Parameter::Text(value) => put(json, value),
        _ => json.extend_from_slice(b"null"),
    }
}

#[cfg(test)]
mod tests {
    use super::elements;
    use axum::http::StatusCode;
    use bytes::Bytes;
    use hydrozoa_models::{DataType, Output, encode_bytes};

    fn written(
        data_type: DataType,
        shape: &[i64],
        data: Vec<u8>,
    ) -> Result<String, (StatusCode, String)> {
        let output = Output {
            name: "OUT".into(),
            data_type,
            shape: shape.to_vec(),
            data: Bytes::from(data),
        };
        let mut json = Vec::new();
        elements(&mut json, &output, false)
            .map(|()| String::from_utf8(json).unwrap())
            .map_err(|problem| (problem.status, problem.message))
    }

    #[test]
    fn elements_of_all_types_are_written() {
        let floats: Vec<u8> = [0.1f32, f32::NAN, f32::INFINITY]
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        assert_eq!(written(DataType::Fp32, &[3, 1], floats).unwrap(), "[0.1,NaN,Infinity]");
        let doubles = f64::NEG_INFINITY.to_le_bytes().to_vec();
        assert_eq!(written(DataType::Fp64, &[1], doubles).unwrap(), "[-Infinity]");
        for (data_type, data, expected) in [
            (DataType::Bool, vec![1, 0], "[true,false]"),
            (DataType::Uint8, vec![255, 1], "[255,1]"),
            (DataType::Int8, vec![255, 1], "[-1,1]"),
            (DataType::Uint16, vec![255, 255, 1, 0], "[65535,1]"),
            (DataType::Int16, vec![255, 255, 1, 0], "[-1,1]"),
            (DataType::Uint32, [[255; 4], [0; 4]].concat(), "[4294967295,0]"),
            (DataType::Int32, [[255; 4], [0; 4]].concat(), "[-1,0]"),
            (DataType::Uint64, [[255; 8], [0; 8]].concat(), "[18446744073709551615,0]"),
            (DataType::Int64, [[255; 8], [0; 8]].concat(), "[-1,0]"),
            (DataType::Bytes, encode_bytes([&b"a\"b"[..], b""]).to_vec(), r#"["a\"b",""]"#),
        ] {
            assert_eq!(written(data_type, &[2], data).unwrap(), expected, "{data_type}");
        }
        assert_eq!(written(DataType::Fp32, &[0], vec![]).unwrap(), "[]");
    }

    #[test]
    fn elements_that_json_cannot_have_are_refused() {
        let text = encode_bytes([&b"\xff"[..]]).to_vec();
        for (data_type, data, status, words) in [
            (DataType::Fp16, vec![0, 0], StatusCode::BAD_REQUEST, "sending FP16 data via JSON"),
            (DataType::Bf16, vec![0, 0], StatusCode::BAD_REQUEST, "sending BF16 data via JSON"),
            (DataType::Bytes, text, StatusCode::BAD_REQUEST, "not UTF-8"),
            (DataType::Int8, vec![], StatusCode::INTERNAL_SERVER_ERROR, "does not match size"),
            (DataType::Bytes, vec![1], StatusCode::INTERNAL_SERVER_ERROR, "does not match size"),
        ] {
            let (found, message) = written(data_type, &[1], data).unwrap_err();
            assert_eq!(found, status);
            assert!(message.contains(words), "{message}");
        }
    }
}
