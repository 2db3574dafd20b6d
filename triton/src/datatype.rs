//! Types of elements by Triton's numbers (`TRITONSERVER_DataType`).

use crate::error::Result;
use hydrozoa_serve::{Code, DataType, Failure};
use std::ffi::c_int;

/// By their numbers; 0 is no type.
const TYPES: [DataType; 14] = [
    DataType::Bool,
    DataType::Uint8,
    DataType::Uint16,
    DataType::Uint32,
    DataType::Uint64,
    DataType::Int8,
    DataType::Int16,
    DataType::Int32,
    DataType::Int64,
    DataType::Fp16,
    DataType::Fp32,
    DataType::Fp64,
    DataType::Bytes,
    DataType::Bf16,
];

/// The type of a tensor.
pub(crate) fn of_number(number: c_int, tensor: &str) -> Result<DataType> {
    let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    place.and_then(|place| TYPES.get(place)).copied().ok_or_else(|| {
        let words = format!("tensor '{tensor}' has elements of type {number}, which is unknown");
        Failure::new(Code::Unsupported, words)
    })
}

/// Triton's number of a type.
pub(crate) fn number(data_type: DataType) -> c_int {
    let place = TYPES.iter().position(|known| *known == data_type);
    place.map_or(0, |place| place as c_int + 1)
}

#[cfg(test)]
mod tests {
    use super::{TYPES, number, of_number};

    #[test]
    fn a_type_is_found_by_its_number() {
        assert!(TYPES.iter().all(|known| of_number(number(*known), "X").unwrap() == *known));
        for unknown in [-1, 0, 15] {
            assert!(of_number(unknown, "X").unwrap_err().message.contains("'X'"));
        }
    }
}
