//! Types of tensors' elements.

use std::fmt;

/// The type of a tensor's elements, by the names of the Open Inference Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DataType {
    /// A byte that is 0 or 1.
    Bool,
    /// 8 bits, unsigned.
    Uint8,
    /// 16 bits, unsigned.
    Uint16,
    /// 32 bits, unsigned.
    Uint32,
    /// 64 bits, unsigned.
    Uint64,
    /// 8 bits, signed.
    Int8,
    /// 16 bits, signed.
    Int16,
    /// 32 bits, signed.
    Int32,
    /// 64 bits, signed.
    Int64,
    /// IEEE 754's half.
    Fp16,
    /// IEEE 754's single.
    Fp32,
    /// IEEE 754's double.
    Fp64,
    /// Texts or byte strings. Each has its length in front, four bytes, little endian.
    Bytes,
    /// The upper half of a single.
    Bf16,
}

/// Protocol's name, configuration's name, bytes of an element. In the order of Triton's numbers (`TRITONSERVER_DataType`).
const TABLE: [(DataType, &str, &str, usize); 14] = [
    (DataType::Bool, "BOOL", "TYPE_BOOL", 1),
    (DataType::Uint8, "UINT8", "TYPE_UINT8", 1),
    (DataType::Uint16, "UINT16", "TYPE_UINT16", 2),
    (DataType::Uint32, "UINT32", "TYPE_UINT32", 4),
    (DataType::Uint64, "UINT64", "TYPE_UINT64", 8),
    (DataType::Int8, "INT8", "TYPE_INT8", 1),
    (DataType::Int16, "INT16", "TYPE_INT16", 2),
    (DataType::Int32, "INT32", "TYPE_INT32", 4),
    (DataType::Int64, "INT64", "TYPE_INT64", 8),
    (DataType::Fp16, "FP16", "TYPE_FP16", 2),
    (DataType::Fp32, "FP32", "TYPE_FP32", 4),
    (DataType::Fp64, "FP64", "TYPE_FP64", 8),
    (DataType::Bytes, "BYTES", "TYPE_STRING", 0),
    (DataType::Bf16, "BF16", "TYPE_BF16", 2),
];

impl DataType {
    /// All types, in the order of Triton's numbers, which begin at 1.
    pub const ALL: [Self; TABLE.len()] = {
        let mut all = [Self::Bool; TABLE.len()];
        let mut place = 0;
        while place < TABLE.len() {
            all[place] = TABLE[place].0;
            place += 1;
        }
        all
    };

    fn row(self) -> &'static (DataType, &'static str, &'static str, usize) {
        TABLE.iter().find(|row| row.0 == self).expect("the table has all types")
    }

    /// The protocol's name, e.g. `FP32`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The configuration's name, e.g. `TYPE_FP32`.
    pub fn config_name(self) -> &'static str {
        self.row().2
    }

    /// The size of an element in bytes. `None` for [`DataType::Bytes`].
    pub fn size(self) -> Option<usize> {
        Some(self.row().3).filter(|size| *size != 0)
    }

    /// The type of this name in the protocol.
    pub fn of_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// The type of this name in a configuration.
    pub fn of_config_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.2 == name).map(|row| row.0)
    }
}

impl fmt::Display for DataType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl<'de> serde::Deserialize<'de> for DataType {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = <std::borrow::Cow<'_, str> as serde::Deserialize>::deserialize(deserializer)?;
        DataType::of_config_name(&name).ok_or_else(|| {
            serde::de::Error::custom(format!("data_type {name} is not an element type"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{DataType, TABLE};

    #[test]
    fn a_type_is_found_by_both_of_its_names() {
        for (data_type, name, config_name, _) in TABLE {
            assert_eq!(DataType::of_name(name), Some(data_type));
            assert_eq!(DataType::of_config_name(config_name), Some(data_type));
        }
        assert_eq!(
            (DataType::of_name("TYPE_FP32"), DataType::of_config_name("FP32")),
            (None, None)
        );
        assert_eq!((DataType::Bytes.size(), DataType::Bf16.size()), (None, Some(2)));
    }
}
