//! The types of Rust that are elements of tensors and buffers.

use super::dlpack::DataType;

/// A type of Rust that is an element of tensors.
///
/// Numbers, `bool`, with the cargo feature `half` also `f16` and `bf16` of the crate half, and with the
/// feature `num-complex` also `Complex<f32>` and `Complex<f64>`.
///
/// # Safety
///
/// `DATA_TYPE` must describe the type's representation, which has no padding. Every bit pattern that
/// [`Element::are_valid`] accepts must be a value of the type.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    /// Its DLPack type.
    const DATA_TYPE: DataType;

    /// Whether all elements are values of this type, from their bytes. A number is one whatever its bits.
    fn are_valid(_bytes: &[u8]) -> bool {
        true
    }
}

macro_rules! elements {
    ($($type:ty => $name:ident),*) => {$(
        // SAFETY: a number of the same kind and size, which any bit pattern is valid for.
        unsafe impl Element for $type {
            const DATA_TYPE: DataType = DataType::$name;
        }
    )*};
}

elements!(i8 => I8, i16 => I16, i32 => I32, i64 => I64, u8 => U8, u16 => U16, u32 => U32,
    u64 => U64, f32 => F32, f64 => F64);

// SAFETY: one byte, and only the bit patterns of `false` and `true` are accepted.
unsafe impl Element for bool {
    const DATA_TYPE: DataType = DataType::BOOLEAN;

    /// Python can write any byte into an array of `bool`.
    fn are_valid(bytes: &[u8]) -> bool {
        // Without a branch for each byte, so that the compiler uses vectors.
        bytes.iter().fold(0, |all, byte| all | byte) <= 1
    }
}

#[cfg(feature = "half")]
elements!(half::f16 => F16, half::bf16 => BF16);

// `Complex` is `repr(C)`: the real part, then the imaginary part, as in C99 and DLPack.
#[cfg(feature = "num-complex")]
elements!(num_complex::Complex<f32> => COMPLEX64, num_complex::Complex<f64> => COMPLEX128);

/// The format of `T` in the `struct` module's syntax, without the mark of the byte order: whether a
/// buffer of the format `format` has such elements. The sizes are compared apart, since a letter has
/// more than one.
pub(super) fn is_format_of<T: Element>(format: &str) -> bool {
    // `=`, `<` and `@` mark native elements on a little-endian machine.
    let letter = format.trim_start_matches(['=', '<', '@']);
    let one_of = |letters: &str| letter.len() == 1 && letters.contains(letter);
    match T::DATA_TYPE {
        DataType::BOOLEAN => letter == "?",
        // The bytes of any elements.
        _ if size_of::<T>() == 1 => true,
        DataType::F16 | DataType::F32 | DataType::F64 => one_of("efd"),
        // PEP 3118 writes `Z` before the letter of the parts. CPython 3.14 has letters of its own.
        DataType::COMPLEX64 => matches!(letter, "Zf" | "F"),
        DataType::COMPLEX128 => matches!(letter, "Zd" | "D"),
        DataType::I16 | DataType::I32 | DataType::I64 => one_of("hilqn"),
        DataType::U16 | DataType::U32 | DataType::U64 => one_of("HILQNP"),
        // Buffers have no letter for it, such as bf16.
        _ => false,
    }
}
