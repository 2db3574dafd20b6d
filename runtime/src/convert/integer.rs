//! Integers of any size, as Python has them.

use std::fmt;

/// An integer of any size.
///
/// It has no arithmetic. It carries a Python `int` to an `i64`, an `i128`, decimal text, or the bytes
/// for a big-number crate.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Integer {
    /// Two's complement, little-endian. Invariant: the fewest bytes that keep the sign, at least one, so
    /// that equal numbers are equal bytes.
    bytes: Vec<u8>,
}

impl Integer {
    /// From two's complement, little-endian. No bytes at all are zero.
    pub fn from_le_bytes(bytes: &[u8]) -> Self {
        let mut bytes = bytes.to_vec();
        if bytes.is_empty() {
            bytes.push(0);
        }
        while let [.., before, last] = bytes[..] {
            let extension = if before & 0x80 == 0 { 0x00 } else { 0xff };
            if last != extension {
                break;
            }
            bytes.pop();
        }
        Self { bytes }
    }

    /// Two's complement, little-endian, in the fewest bytes.
    pub fn to_le_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether it is less than zero.
    pub fn is_negative(&self) -> bool {
        self.bytes.last().is_some_and(|last| last & 0x80 != 0)
    }

    /// Sign-extended to `N` bytes, or `None` if it does not fit.
    fn extended<const N: usize>(&self) -> Option<[u8; N]> {
        let mut wide = [if self.is_negative() { 0xff } else { 0 }; N];
        wide.get_mut(..self.bytes.len())?.copy_from_slice(&self.bytes);
        Some(wide)
    }
}

/// An [`Integer`] lies outside of the type that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the value lies outside of {minimum}..={maximum}; take a wider type, or Integer")]
pub struct OutOfRange {
    minimum: i128,
    maximum: u128,
}

macro_rules! conversions {
    ($($type:ty: $wide:ty),*) => {$(
        impl From<$type> for Integer {
            fn from(value: $type) -> Self {
                Self::from_le_bytes(&<$wide>::from(value).to_le_bytes())
            }
        }

        impl TryFrom<&Integer> for $type {
            type Error = OutOfRange;

            fn try_from(integer: &Integer) -> Result<Self, OutOfRange> {
                integer
                    .extended::<{ size_of::<$wide>() }>()
                    .and_then(|bytes| <$type>::try_from(<$wide>::from_le_bytes(bytes)).ok())
                    .ok_or(OutOfRange {
                        minimum: <$type>::MIN as i128,
                        maximum: <$type>::MAX as u128,
                    })
            }
        }
    )*};
}

conversions!(i8: i8, i16: i16, i32: i32, i64: i64, i128: i128);
conversions!(u8: i16, u16: i32, u32: i64, u64: i128);

macro_rules! conversions_through {
    ($($type:ty: $through:ty),*) => {$(
        impl From<$type> for Integer {
            fn from(value: $type) -> Self {
                Self::from(value as $through)
            }
        }

        impl TryFrom<&Integer> for $type {
            type Error = OutOfRange;

            fn try_from(integer: &Integer) -> Result<Self, OutOfRange> {
                <$through>::try_from(integer).map(|value| value as Self)
            }
        }
    )*};
}

conversions_through!(isize: i64, usize: u64);

impl From<u128> for Integer {
    fn from(value: u128) -> Self {
        let mut bytes = value.to_le_bytes().to_vec();
        bytes.push(0);
        Self::from_le_bytes(&bytes)
    }
}

impl TryFrom<&Integer> for u128 {
    type Error = OutOfRange;

    fn try_from(integer: &Integer) -> Result<Self, OutOfRange> {
        match integer.extended::<17>() {
            Some([low @ .., 0]) => Ok(Self::from_le_bytes(low)),
            _ => Err(OutOfRange { minimum: 0, maximum: Self::MAX }),
        }
    }
}

impl fmt::Debug for Integer {
    /// The number, as [`fmt::Display`] writes it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl fmt::Display for Integer {
    /// Decimal. Quadratic in the number of digits, as Python's own is for small numbers.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Ok(small) = i128::try_from(self) {
            return small.fmt(formatter);
        }
        const GROUP: u64 = 1_000_000_000;
        let mut magnitude = self.magnitude();
        let mut groups = Vec::new();
        while magnitude.iter().any(|limb| *limb != 0) {
            let mut remainder = 0;
            for limb in magnitude.iter_mut().rev() {
                let value = (remainder << 32) | u64::from(*limb);
                *limb = (value / GROUP) as u32;
                remainder = value % GROUP;
            }
            groups.push(remainder);
        }
        let mut digits = String::new();
        for (position, group) in groups.iter().rev().enumerate() {
            if position == 0 {
                digits.push_str(&group.to_string());
            } else {
                digits.push_str(&format!("{group:09}"));
            }
        }
        formatter.pad_integral(!self.is_negative(), "", &digits)
    }
}

impl Integer {
    /// The absolute value in limbs of 32 bits, the least significant first.
    fn magnitude(&self) -> Vec<u32> {
        let negative = self.is_negative();
        let fill = if negative { 0xff } else { 0 };
        let mut carry = negative;
        self.bytes
            .chunks(4)
            .map(|chunk| {
                let mut limb = [fill; 4];
                limb[..chunk.len()].copy_from_slice(chunk);
                let limb = u32::from_le_bytes(limb);
                if !negative {
                    return limb;
                }
                let (limb, overflow) = (!limb).overflowing_add(u32::from(carry));
                carry = overflow;
                limb
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Integer;

    #[test]
    fn equal_numbers_have_equal_bytes() {
        assert_eq!(Integer::from(5_u8), Integer::from(5_i128));
        assert_eq!(Integer::from(-1_i8), Integer::from(-1_i64));
        assert_eq!(Integer::from_le_bytes(&[]), Integer::from(0_u64));
        assert_eq!(Integer::from(255_u8).to_le_bytes(), [255, 0]);
    }

    #[test]
    fn narrowing_refuses_what_does_not_fit() {
        assert_eq!(u8::try_from(&Integer::from(255_i64)), Ok(255));
        assert!(u8::try_from(&Integer::from(256_i64)).is_err());
        assert!(u64::try_from(&Integer::from(-1_i64)).is_err());
        assert_eq!(u128::try_from(&Integer::from(u128::MAX)), Ok(u128::MAX));
        assert!(i128::try_from(&Integer::from(u128::MAX)).is_err());
        assert!(u128::try_from(&Integer::from(-1_i64)).is_err());
    }

    #[test]
    fn decimal_text_of_large_numbers() {
        let two_to_200 = {
            let mut bytes = vec![0; 25];
            bytes.push(1);
            Integer::from_le_bytes(&bytes)
        };
        let digits = "1606938044258990275541962092341162602522202993782792835301376";
        assert_eq!(two_to_200.to_string(), digits);
        let mut negative = vec![0; 25];
        negative.push(0xff);
        assert_eq!(Integer::from_le_bytes(&negative).to_string(), format!("-{digits}"));
        assert_eq!(Integer::from(u128::MAX).to_string(), u128::MAX.to_string());
    }
}
