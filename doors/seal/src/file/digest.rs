//! Hashes of ranges of files, which are read piece by piece.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use sha2::{Digest, Sha256};

/// How many bytes are read at once.
pub(super) const PIECE: usize = 1 << 20;

/// How many of so many bytes are read at once.
pub(super) fn piece_of(length: u64) -> usize {
    usize::try_from(length).unwrap_or(PIECE).min(PIECE)
}

/// SHA-256 of bytes, in hexadecimal digits.
pub(super) fn of_bytes(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// SHA-256 of a range of a file, with a second range as zeroes, if there is one.
pub(super) fn of_range(file: &File, range: Range<u64>, zeroes: Range<u64>) -> io::Result<[u8; 32]> {
    let mut hasher = Sha256::new();
    let mut piece = vec![0; piece_of(range.end.saturating_sub(range.start))];
    let mut start = range.start;
    while start < range.end {
        let length = piece_of(range.end - start);
        let piece = &mut piece[..length];
        file.read_exact_at(piece, start)?;
        let end = start + length as u64;
        let (from, to) = (zeroes.start.clamp(start, end), zeroes.end.clamp(start, end));
        if from < to {
            piece[(from - start) as usize..(to - start) as usize].fill(0);
        }
        hasher.update(&*piece);
        start = end;
    }
    Ok(hasher.finalize().into())
}

/// Bytes in hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_the_hash_of_its_bytes_with_zeroes() {
        let mut bytes: Vec<u8> = (0..3 * PIECE).map(|index| (index % 251) as u8).collect();
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&bytes, 0).unwrap();
        let range = 10..3 * PIECE as u64 - 7;
        let zeroes = PIECE as u64 - 5..PIECE as u64 + 30;
        let plain = of_range(&file, range.clone(), 0..0).unwrap();
        assert_eq!(hex(&plain), of_bytes(&bytes[10..3 * PIECE - 7]));
        let found = of_range(&file, range, zeroes).unwrap();
        bytes[PIECE - 5..PIECE + 30].fill(0);
        assert_eq!(hex(&found), of_bytes(&bytes[10..3 * PIECE - 7]));
    }

    #[test]
    fn a_range_behind_the_end_is_an_error() {
        assert!(of_range(&tempfile::tempfile().unwrap(), 0..1, 0..0).is_err());
    }
}
