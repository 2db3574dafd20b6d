//! Types of elements by Triton's numbers (`TRITONSERVER_DataType`), of which 0 is not a type.

use crate::error::Result;
use hydrozoa_models::{Code, DataType, Failure};
use std::ffi::c_int;

/// The type of a tensor.
pub(crate) fn of_number(number: c_int, tensor: &str) -> Result<DataType> {
    let place = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    place.and_then(|place| DataType::ALL.get(place)).copied().ok_or_else(|| {
        let words = format!("tensor '{tensor}' has elements of type {number}, which is unknown");
        Failure::new(Code::Unsupported, words)
    })
}

/// Triton's number of a type.
pub(crate) fn number(data_type: DataType) -> c_int {
    let place = DataType::ALL.iter().position(|known| *known == data_type);
    place.map_or(0, |place| place as c_int + 1)
}

#[cfg(test)]
mod tests {
    use super::{number, of_number};
    use hydrozoa_models::DataType;

    #[test]
    fn a_type_is_found_by_its_number() {
        for known in DataType::ALL {
            assert_eq!(of_number(number(known), "X").unwrap(), known);
        }
        // As in tritonserver.h.
        assert_eq!((number(DataType::Fp32), number(DataType::Bf16)), (11, 14));
        for unknown in [-1, 0, 15] {
            assert!(of_number(unknown, "X").unwrap_err().message.contains("'X'"));
        }
    }
}
