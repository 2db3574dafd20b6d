//! Text and bytes that the caller owns.

use crate::boundary::{Failure, Result, free};
use std::ffi::c_char;
use std::ptr;

/// Text or bytes that the caller owns. They do not change, belong to no interpreter, and any thread may use them.
pub struct hz_bytes {
    /// With a zero behind the last byte.
    data: Box<[u8]>,
}

impl hz_bytes {
    pub(crate) fn new(bytes: impl Into<Vec<u8>>) -> Result<Self> {
        let mut data = bytes.into();
        data.try_reserve_exact(1).map_err(|_| Failure::memory(data.len()))?;
        data.push(0);
        Ok(Self { data: data.into() })
    }

    /// The first byte, and how many there are.
    pub(crate) fn parts(&self) -> (*const c_char, usize) {
        (self.data.as_ptr().cast(), self.data.len() - 1)
    }
}

/// The first byte. A zero that does not count follows the last one, so text without zeros is a text of C. It lives as
/// long as `bytes`. NULL for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hz_bytes_data(bytes: Option<&hz_bytes>) -> *const c_char {
    bytes.map_or(ptr::null(), |bytes| bytes.data.as_ptr().cast())
}

/// The number of bytes. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hz_bytes_len(bytes: Option<&hz_bytes>) -> usize {
    bytes.map_or(0, |bytes| bytes.data.len() - 1)
}

/// Frees them. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn hz_bytes_free(bytes: Option<Box<hz_bytes>>) {
    free(bytes);
}
