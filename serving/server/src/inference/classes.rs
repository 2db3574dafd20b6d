//! The classification extension: the places of the greatest elements, each as `VALUE:PLACE`.

use hydrozoa_models::{Code, DataType, Failure, Output, encode_bytes};
use std::fmt::Display;

/// Elements of an output that is classified, at most, as with Triton.
const MOST: usize = 1_000_000;

/// The `count` greatest elements of each item of a batch, as texts.
///
/// # Errors
///
/// [`hydrozoa_models::Code::InvalidArgument`] if the elements have no order or are too many, in Triton's words.
pub(crate) fn classes(output: &Output, count: usize, is_batch: bool) -> Result<Output, Failure> {
    let size = output.data_type.size().ok_or_else(|| unsupported(output.data_type))?;
    let batch = match output.shape.first() {
        Some(batch) if is_batch => Some(usize::try_from(*batch).unwrap_or_default()),
        _ => None,
    };
    let all = output.data.len() / size;
    if all > MOST {
        return Err(Failure::new(Code::InvalidArgument, "classification output tensor too large"));
    }
    let items = batch.unwrap_or(1).max(1);
    // A batch without elements has items without classes.
    let of_one = all / items;
    let mut texts = Vec::new();
    if of_one > 0 {
        for item in output.data.chunks_exact(of_one * size) {
            texts.extend(greatest(item, output.data_type, count)?);
        }
    }
    let mut shape: Vec<i64> =
        output.shape.first().filter(|_| batch.is_some()).copied().into_iter().collect();
    shape.push(count.min(of_one) as i64);
    Ok(Output {
        name: output.name.clone(),
        data_type: DataType::Bytes,
        shape,
        data: encode_bytes(texts.iter().map(String::as_bytes)).freeze(),
    })
}

fn unsupported(data_type: DataType) -> Failure {
    let words =
        format!("class result not available for output due to unsupported type '{data_type}'");
    Failure::new(Code::InvalidArgument, words)
}

fn greatest(item: &[u8], data_type: DataType, count: usize) -> Result<Vec<String>, Failure> {
    // Numbers with a fraction have six digits of it, as C++ writes them.
    Ok(match data_type {
        DataType::Uint8 => sorted(item, u8::from_le_bytes, count, whole),
        DataType::Uint16 => sorted(item, u16::from_le_bytes, count, whole),
        DataType::Uint32 => sorted(item, u32::from_le_bytes, count, whole),
        DataType::Uint64 => sorted(item, u64::from_le_bytes, count, whole),
        DataType::Int8 => sorted(item, i8::from_le_bytes, count, whole),
        DataType::Int16 => sorted(item, i16::from_le_bytes, count, whole),
        DataType::Int32 => sorted(item, i32::from_le_bytes, count, whole),
        DataType::Int64 => sorted(item, i64::from_le_bytes, count, whole),
        DataType::Fp32 => sorted(item, f32::from_le_bytes, count, |value| format!("{value:.6}")),
        DataType::Fp64 => sorted(item, f64::from_le_bytes, count, |value| format!("{value:.6}")),
        _ => return Err(unsupported(data_type)),
    })
}

fn whole(value: impl Display) -> String {
    value.to_string()
}

fn sorted<T: Copy + PartialOrd, const N: usize>(
    item: &[u8],
    element: impl Fn([u8; N]) -> T,
    count: usize,
    text: impl Fn(T) -> String,
) -> Vec<String> {
    let (chunks, _) = item.as_chunks::<N>();
    let mut all: Vec<(usize, T)> = chunks.iter().map(|chunk| element(*chunk)).enumerate().collect();
    // NaN sorts after all numbers.
    let is_number = |value: &T| value.partial_cmp(value).is_some();
    all.sort_by(|(_, one), (_, other)| {
        let both = other.partial_cmp(one);
        both.unwrap_or_else(|| is_number(other).cmp(&is_number(one)))
    });
    all.into_iter().take(count).map(|(place, value)| format!("{}:{place}", text(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::classes;
    use bytes::Bytes;
    use hydrozoa_models::{DataType, Output, decode_bytes};

    fn output(values: &[f32], shape: &[i64]) -> Output {
        let data: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let (name, data_type) = ("OUT".to_owned(), DataType::Fp32);
        Output { name, data_type, shape: shape.to_vec(), data: Bytes::from(data) }
    }

    fn texts(output: &Output) -> Vec<String> {
        let all = decode_bytes(&output.data).unwrap();
        all.into_iter().map(|text| String::from_utf8(text.to_vec()).unwrap()).collect()
    }

    #[test]
    fn the_greatest_come_first_in_each_item() {
        let batch = output(&[0.5, 2.0, 1.0, 9.0, 7.5, 8.0], &[2, 3]);
        let two = classes(&batch, 2, true).unwrap();
        assert_eq!(texts(&two), ["2.000000:1", "1.000000:2", "9.000000:0", "8.000000:2"]);
        assert_eq!((two.shape, two.data_type), (vec![2, 2], DataType::Bytes));
        let one = classes(&output(&[f32::NAN, 1.0, -1.0], &[3]), 9, false).unwrap();
        assert_eq!(texts(&one), ["1.000000:1", "-1.000000:2", "NaN:0"]);
        assert_eq!(one.shape, [3]);
    }

    #[test]
    fn integers_are_written_whole() {
        let data = Bytes::from(vec![1, 255, 2]);
        let all = Output { data_type: DataType::Int8, data, ..output(&[], &[3]) };
        assert_eq!(texts(&classes(&all, 9, false).unwrap()), ["2:2", "1:0", "-1:1"]);
    }

    #[test]
    fn more_than_a_million_elements_are_refused() {
        let data = Bytes::from(vec![0; 1_000_001]);
        let large = Output { data_type: DataType::Int8, data, ..output(&[], &[1_000_001]) };
        assert!(classes(&large, 1, false).unwrap_err().message.contains("too large"));
    }

    #[test]
    fn what_has_no_order_is_refused() {
        for data_type in [DataType::Bytes, DataType::Bool, DataType::Fp16] {
            let output = Output { data_type, ..output(&[1.0], &[1]) };
            let message = classes(&output, 1, false).unwrap_err().message;
            assert!(message.contains(&format!("unsupported type '{data_type}'")), "{message}");
        }
        let empty = classes(&output(&[], &[0, 3]), 2, true).unwrap();
        assert_eq!((empty.shape, empty.data.len()), (vec![0, 0], 0));
    }
}
