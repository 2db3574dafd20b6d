//! Elements that are given one by one.

use super::proto::inference::InferTensorContents;
use super::status::invalid;
use bytes::{BufMut, BytesMut};
use hydrozoa_models::{DataType, Failure, encode_bytes};

/// The field of a message that has elements, with the type that it stands for.
enum Given {
    Bool(Vec<bool>),
    Int(Vec<i32>),
    Int64(Vec<i64>),
    Uint(Vec<u32>),
    Uint64(Vec<u64>),
    Fp32(Vec<f32>),
    Fp64(Vec<f64>),
    Bytes(Vec<bytes::Bytes>),
}

impl Given {
    fn data_type(&self) -> DataType {
        match self {
            Given::Bool(_) => DataType::Bool,
            Given::Int(_) => DataType::Int32,
            Given::Int64(_) => DataType::Int64,
            Given::Uint(_) => DataType::Uint32,
            Given::Uint64(_) => DataType::Uint64,
            Given::Fp32(_) => DataType::Fp32,
            Given::Fp64(_) => DataType::Fp64,
            Given::Bytes(_) => DataType::Bytes,
        }
    }
}

/// The fields that have elements.
fn given(contents: InferTensorContents) -> Vec<Given> {
    let mut all = Vec::new();
    let InferTensorContents {
        bool_contents,
        int_contents,
        int64_contents,
        uint_contents,
        uint64_contents,
        fp32_contents,
        fp64_contents,
        bytes_contents,
    } = contents;
    let mut add = |is_empty: bool, field: Given| {
        if !is_empty {
            all.push(field);
        }
    };
    add(bool_contents.is_empty(), Given::Bool(bool_contents));
    add(int_contents.is_empty(), Given::Int(int_contents));
    add(int64_contents.is_empty(), Given::Int64(int64_contents));
    add(uint_contents.is_empty(), Given::Uint(uint_contents));
    add(uint64_contents.is_empty(), Given::Uint64(uint64_contents));
    add(fp32_contents.is_empty(), Given::Fp32(fp32_contents));
    add(fp64_contents.is_empty(), Given::Fp64(fp64_contents));
    add(bytes_contents.is_empty(), Given::Bytes(bytes_contents));
    all
}

fn put<T: Copy, const N: usize>(elements: &[T], bytes: impl Fn(T) -> [u8; N]) -> BytesMut {
    let mut data = BytesMut::with_capacity(elements.len().saturating_mul(N));
    elements.iter().for_each(|element| data.put_slice(&bytes(*element)));
    data
}

/// The bytes of elements in a smaller type.
fn narrow<T, S, const N: usize>(
    elements: &[T],
    input: &str,
    data_type: DataType,
    bytes: impl Fn(S) -> [u8; N],
) -> Result<BytesMut, Failure>
where
    T: Copy + std::fmt::Display + TryInto<S>,
{
    let mut data = BytesMut::with_capacity(elements.len().saturating_mul(N));
    for element in elements {
        let small: S = (*element).try_into().map_err(|_| {
            invalid(format!("element {element} of input tensor '{input}' does not fit {data_type}"))
        })?;
        data.put_slice(&bytes(small));
    }
    Ok(data)
}

/// An input's bytes.
///
/// # Errors
///
/// [`hydrozoa_models::Code::InvalidArgument`], mostly in Triton's words.
pub(super) fn bytes(
    contents: InferTensorContents,
    data_type: DataType,
    input: &str,
    model: &str,
) -> Result<BytesMut, Failure> {
    let mut fields = given(contents).into_iter();
    let Some(first) = fields.next() else { return Ok(BytesMut::new()) };
    let about = || {
        format!("unexpected explicit tensor data for input tensor '{input}' for model '{model}'")
    };
    if fields.next().is_some() {
        return Err(invalid(format!("{}, binary data was already supplied.", about())));
    }
    Ok(match (&first, data_type) {
        (Given::Bool(all), DataType::Bool) => put(all, |element| [u8::from(element)]),
        (Given::Int(all), DataType::Int8) => narrow(all, input, data_type, i8::to_le_bytes)?,
        (Given::Int(all), DataType::Int16) => narrow(all, input, data_type, i16::to_le_bytes)?,
        (Given::Int(all), DataType::Int32) => put(all, i32::to_le_bytes),
        (Given::Int64(all), DataType::Int64) => put(all, i64::to_le_bytes),
        (Given::Uint(all), DataType::Uint8) => narrow(all, input, data_type, u8::to_le_bytes)?,
        (Given::Uint(all), DataType::Uint16) => narrow(all, input, data_type, u16::to_le_bytes)?,
        (Given::Uint(all), DataType::Uint32) => put(all, u32::to_le_bytes),
        (Given::Uint64(all), DataType::Uint64) => put(all, u64::to_le_bytes),
        (Given::Fp32(all), DataType::Fp32) => put(all, f32::to_le_bytes),
        (Given::Fp64(all), DataType::Fp64) => put(all, f64::to_le_bytes),
        (Given::Bytes(all), DataType::Bytes) => encode_bytes(all.iter().map(|text| &text[..])),
        _ => {
            return Err(invalid(format!(
                "{} of type '{}', expected datatype '{data_type}'",
                about(),
                first.data_type()
            )));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::bytes;
    use crate::grpc::proto::inference::InferTensorContents as Contents;
    use hydrozoa_models::DataType;

    #[test]
    fn elements_become_bytes_of_their_type() {
        let int = || Contents { int_contents: vec![-1, 2], ..Contents::default() };
        let uint = || Contents { uint_contents: vec![1, 255], ..Contents::default() };
        for (contents, data_type, expected) in [
            (int(), DataType::Int8, &b"\xff\x02"[..]),
            (int(), DataType::Int16, b"\xff\xff\x02\0"),
            (int(), DataType::Int32, b"\xff\xff\xff\xff\x02\0\0\0"),
            (uint(), DataType::Uint8, b"\x01\xff"),
            (uint(), DataType::Uint16, b"\x01\0\xff\0"),
            (uint(), DataType::Uint32, b"\x01\0\0\0\xff\0\0\0"),
            (
                Contents { bool_contents: vec![true, false], ..Contents::default() },
                DataType::Bool,
                b"\x01\0",
            ),
            (
                Contents { fp32_contents: vec![1.0], ..Contents::default() },
                DataType::Fp32,
                b"\0\0\x80\x3f",
            ),
            (
                Contents { bytes_contents: vec!["a".into()], ..Contents::default() },
                DataType::Bytes,
                b"\x01\0\0\0a",
            ),
            (Contents::default(), DataType::Fp16, b""),
        ] {
            assert_eq!(
                &bytes(contents, data_type, "IN", "m").unwrap()[..],
                expected,
                "{data_type}"
            );
        }
    }

    #[test]
    fn elements_of_another_type_are_refused() {
        let of = |contents, data_type| bytes(contents, data_type, "IN", "m").unwrap_err().message;
        let floats = || Contents { fp32_contents: vec![1.0], ..Contents::default() };
        assert_eq!(
            of(floats(), DataType::Fp16),
            "unexpected explicit tensor data for input tensor 'IN' for model 'm' of type 'FP32', expected datatype 'FP16'"
        );
        let both = Contents { int_contents: vec![1], ..floats() };
        assert!(of(both, DataType::Fp32).ends_with("'m', binary data was already supplied."));
        let large = Contents { int_contents: vec![1, 128], ..Contents::default() };
        assert_eq!(of(large, DataType::Int8), "element 128 of input tensor 'IN' does not fit INT8");
    }
}
