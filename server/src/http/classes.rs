//! The classification extension: the greatest values of an output, with their places.

use super::problem::Problem;
use bytes::Bytes;
use hydrozoa_serve::{DataType, Output, encode_bytes};

/// Elements of an output that is sorted. More would take long.
const MOST: usize = 1_000_000;

/// The `count` greatest values of an output, of each member of the batch, as texts `value:place`.
pub(crate) fn classes(output: &Output, count: usize, has_batch: bool) -> Result<Output, Problem> {
    let unsupported = || {
        Problem::bad(format!(
            "class result not available for output due to unsupported type '{}'",
            output.data_type
        ))
    };
    let size = output.data_type.size().ok_or_else(unsupported)?;
    let (batch, of_one) = match output.shape.split_first() {
        Some((batch, of_one)) if has_batch => (Some(*batch), of_one),
        _ => (None, &output.shape[..]),
    };
    let each = of_one
        .iter()
        .try_fold(1usize, |product, extent| product.checked_mul(usize::try_from(*extent).ok()?))
        .filter(|each| *each <= MOST)
        .ok_or_else(|| Problem::bad("classification output tensor too large"))?;
    let mut texts = Vec::new();
    for member in output.data.chunks(each.saturating_mul(size).max(1)) {
        texts.extend(greatest(output.data_type, member, count).ok_or_else(unsupported)?);
    }
    let shape = batch.into_iter().chain([count.min(each) as i64]).collect();
    let data = encode_bytes(texts.iter().map(String::as_bytes));
    Ok(Output {
        name: output.name.clone(),
        data_type: DataType::Bytes,
        shape,
        data: Bytes::from(data),
    })
}

/// `None` for types that have no order here.
fn greatest(data_type: DataType, data: &[u8], count: usize) -> Option<Vec<String>> {
    macro_rules! of {
        ($type:ty, $order:expr, $words:expr) => {{
            let values = data.as_chunks::<{ size_of::<$type>() }>().0;
            let mut places: Vec<(usize, $type)> =
                values.iter().map(|bytes| <$type>::from_le_bytes(*bytes)).enumerate().collect();
            places.sort_by(|(_, one), (_, other)| $order(other, one));
            places.truncate(count);
            places.iter().map(|(place, value)| format!("{}:{place}", $words(*value))).collect()
        }};
    }
    Some(match data_type {
        DataType::Uint8 => of!(u8, u8::cmp, |value: u8| value),
        DataType::Uint16 => of!(u16, u16::cmp, |value: u16| value),
        DataType::Uint32 => of!(u32, u32::cmp, |value: u32| value),
        DataType::Uint64 => of!(u64, u64::cmp, |value: u64| value),
        DataType::Int8 => of!(i8, i8::cmp, |value: i8| value),
        DataType::Int16 => of!(i16, i16::cmp, |value: i16| value),
        DataType::Int32 => of!(i32, i32::cmp, |value: i32| value),
        DataType::Int64 => of!(i64, i64::cmp, |value: i64| value),
        DataType::Fp32 => of!(f32, f32::total_cmp, |value: f32| format!("{value:.6}")),
        DataType::Fp64 => of!(f64, f64::total_cmp, |value: f64| format!("{value:.6}")),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::classes;
    use bytes::Bytes;
    use hydrozoa_serve::{DataType, Output, decode_bytes};

    fn output(data_type: DataType, shape: &[i64], data: Vec<u8>) -> Output {
        Output { name: "OUT".into(), data_type, shape: shape.to_vec(), data: Bytes::from(data) }
    }

    #[test]
    fn the_greatest_values_of_each_member_of_a_batch_are_named() {
        let floats: Vec<u8> = [0.5f32, 2.0, 1.0, 3.0, 0.0, 0.25]
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        let found = classes(&output(DataType::Fp32, &[2, 3], floats), 2, true).unwrap();
        assert_eq!((found.data_type, &found.shape[..]), (DataType::Bytes, &[2, 2][..]));
        let texts: Vec<_> = decode_bytes(&found.data)
            .unwrap()
            .into_iter()
            .map(|text| str::from_utf8(text).unwrap())
            .collect();
        assert_eq!(texts, ["2.000000:1", "1.000000:2", "3.000000:0", "0.250000:2"]);
        let all = classes(&output(DataType::Int8, &[3], vec![1, 255, 2]), 9, false).unwrap();
        assert_eq!(all.shape, [3]);
        assert_eq!(decode_bytes(&all.data).unwrap(), [&b"2:2"[..], b"1:0", b"-1:1"]);
    }

    #[test]
    fn what_has_no_order_is_refused() {
        let problem = classes(&output(DataType::Bytes, &[1], vec![0; 4]), 1, false).unwrap_err();
        assert!(problem.message.contains("unsupported type 'BYTES'"));
        let large = output(DataType::Int8, &[1_000_001], vec![0; 1_000_001]);
        assert!(classes(&large, 1, false).unwrap_err().message.contains("too large"));
    }
}
