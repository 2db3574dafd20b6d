//! Values that cross the boundary without an object.

use crate::table::{Handle, Text};

/// The type of a [`TaggedValue`]'s value.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind(pub u32);

impl Kind {
    /// `None`.
    pub const NONE: Self = Self(0);
    /// `bool`, in `word`.
    pub const BOOL: Self = Self(1);
    /// `int` that fits `i64`, in `word`.
    pub const INT: Self = Self(2);
    /// Any other `int`. On the way in the view is of its two's complement, little-endian, in the fewest bytes. On the way
    /// out it has no view: `digits` gives the bytes.
    pub const BIG_INT: Self = Self(3);
    /// `float`, its bits in `word`.
    pub const FLOAT: Self = Self(4);
    /// `str`: a view of its UTF-8.
    pub const STR: Self = Self(5);
    /// `bytes`: a view.
    pub const BYTES: Self = Self(6);
    /// `list` of `len` items.
    pub const LIST: Self = Self(7);
    /// `tuple` of `len` items.
    pub const TUPLE: Self = Self(8);
    /// `dict` of `len` pairs.
    pub const DICT: Self = Self(9);
    /// `bytearray`: a view, valid only while the GIL is held and no Python code runs.
    pub const BYTE_ARRAY: Self = Self(10);
    /// An object of any other type.
    pub const OTHER: Self = Self(11);
    /// On the way in: the [`Handle`] in `word`, which is borrowed.
    pub const BORROWED: Self = Self(12);
    /// On the way in: the [`Handle`] in `word`, whose reference the function takes over, also if it fails.
    pub const OWNED: Self = Self(13);
}

/// A Python value without other values in it; of a container only its kind and length.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct TaggedValue {
    /// Its type.
    pub kind: Kind,
    /// The number, the address of the first byte of a view, or the [`Handle`].
    pub word: u64,
    /// The bytes of the view, or the number of items.
    pub len: usize,
}

impl TaggedValue {
    /// A value with every field but `kind` empty.
    pub const fn new(kind: Kind) -> Self {
        Self { kind, word: 0, len: 0 }
    }

    /// An integer or a bool.
    pub const fn integer(kind: Kind, value: i64) -> Self {
        Self { kind, word: value.cast_unsigned(), len: 0 }
    }

    /// A float.
    pub const fn float(value: f64) -> Self {
        Self { kind: Kind::FLOAT, word: value.to_bits(), len: 0 }
    }

    /// A view of bytes.
    pub fn view(kind: Kind, bytes: &[u8]) -> Self {
        Self { kind, word: bytes.as_ptr().expose_provenance() as u64, len: bytes.len() }
    }

    /// A reference to an object, [`Kind::BORROWED`] or [`Kind::OWNED`].
    pub fn object(kind: Kind, handle: Handle) -> Self {
        Self { kind, word: handle.expose_provenance() as u64, len: 0 }
    }

    /// The value of an integer or a bool.
    pub const fn as_integer(&self) -> i64 {
        self.word.cast_signed()
    }

    /// The value of a float.
    pub const fn as_float(&self) -> f64 {
        f64::from_bits(self.word)
    }

    /// The object.
    pub fn as_object(&self) -> Handle {
        std::ptr::with_exposed_provenance_mut(self.word as usize)
    }

    /// The viewed bytes.
    ///
    /// # Safety
    ///
    /// The value has a view, whose owner keeps the bytes alive and unchanged for `'a`.
    pub unsafe fn bytes<'a>(&self) -> &'a [u8] {
        let text =
            Text { data: std::ptr::with_exposed_provenance(self.word as usize), len: self.len };
        // SAFETY: as the caller vouches.
        unsafe { text.bytes() }
    }
}
