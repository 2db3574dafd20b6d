//! The place in an executable where a sealed application says what it carries.
//!
//! The place is a variable of 128 bytes. The sealer finds it in the executable's file by its first bytes, and writes the rest:
//!
//! | bytes | hold |
//! |---|---|
//! | 0..32 | [`MAGIC`] |
//! | 32..40 | the length of the whole file; 0 in a program that is not sealed |
//! | 40..56 | offset and length of the start record |
//! | 56..72 | offset and length of the manifest |
//! | 72..80 | the length of the executable before it was sealed |
//! | 80..112 | the SHA-256 of the whole file, with this field itself as zeroes |
//!
//! Numbers have 64 bits, the lowest byte first.

use std::ops::Range;

/// The first bytes of the place.
pub(super) const MAGIC: [u8; 32] = *b"hydrozoa sealed application v1\0\0";

/// Bytes of the place.
pub(super) const LENGTH: usize = 128;

/// The numbers in the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The length of the whole file in bytes.
    pub length: u64,
    /// Where the start record lies.
    pub start: Range<u64>,
    /// Where the manifest lies.
    pub manifest: Range<u64>,
    /// The length of the executable before it was sealed.
    pub base: u64,
    /// The SHA-256 of the file.
    pub digest: [u8; 32],
}

impl Header {
    /// The header in the bytes of a place; none if the program is not sealed, or if they are damaged.
    pub(super) fn parse(place: &[u8; LENGTH]) -> Option<Header> {
        let word = |at: usize| u64::from_le_bytes(place[at..at + 8].try_into().expect("8 bytes"));
        let range = |at: usize| Some(word(at)..word(at).checked_add(word(at + 8))?);
        let length = word(32);
        let digest = place[80..112].try_into().expect("32 bytes");
        (place[..32] == MAGIC && length > 0).then_some(())?;
        Some(Header { length, start: range(40)?, manifest: range(56)?, base: word(72), digest })
    }
}

#[cfg(feature = "embed")]
mod own {
    use super::{LENGTH, MAGIC};

    /// The sealer changes it in the file. Its address is all that the compiler may know of it.
    #[used]
    static PLACE: [u8; LENGTH] = {
        let mut place = [0; LENGTH];
        let mut index = 0;
        while index < MAGIC.len() {
            place[index] = MAGIC[index];
            index += 1;
        }
        place
    };

    /// The bytes of this program's place.
    pub(super) fn place() -> Option<[u8; LENGTH]> {
        // SAFETY: the static is valid. The read is volatile, since the file may hold others than the compiler has seen.
        Some(unsafe { std::ptr::read_volatile(&raw const PLACE) })
    }
}

#[cfg(not(feature = "embed"))]
mod own {
    pub(super) fn place() -> Option<[u8; super::LENGTH]> {
        None
    }
}

/// The header of this program, if it is sealed.
pub(super) fn of_this_program() -> Option<Header> {
    Header::parse(&own::place()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_header_only_after_it_was_sealed() {
        let mut place = [0; LENGTH];
        place[..32].copy_from_slice(&MAGIC);
        assert_eq!(Header::parse(&place), None);
        place[32..40].copy_from_slice(&4096_u64.to_le_bytes());
        place[40..48].copy_from_slice(&100_u64.to_le_bytes());
        place[48..56].copy_from_slice(&20_u64.to_le_bytes());
        assert_eq!(Header::parse(&place).unwrap().start, 100..120);
        place[48..56].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(Header::parse(&place), None, "no such range exists");
        place[0] ^= 1;
        assert_eq!(Header::parse(&place), None);
    }
}
