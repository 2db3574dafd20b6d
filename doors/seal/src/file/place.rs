//! The header of a sealed application: 128 bytes in the executable's data, which the runtime reads at its start.
//!
//! ```text
//!   0..32    magic
//!  32..40    length of the whole file; 0: not sealed       (integers are little-endian)
//!  40..56    offset and length of the start record
//!  56..72    offset and length of the manifest
//!  72..80    length of the executable before it was sealed
//!  80..112   sha256 of the whole file, with these 32 bytes as zeroes
//! 112..128   zeroes
//! ```

use std::collections::BTreeSet;
use std::ops::Range;

use super::elf::{Elf, Flaw, Part, range_in_file};

/// The header's length in bytes.
pub(super) const LENGTH: u64 = 128;

/// Where in the header the hash lies.
pub(super) const HASH: Range<u64> = 80..112;

/// The magic bytes from the last to the first. The sealer is part of executables that are sealed: in plain order its own
/// needle would be found there.
const REVERSED: &[u8; 32] = b"\0\x001v noitacilppa delaes aozordyh";

fn magic() -> [u8; 32] {
    // The compiler could turn the bytes round and keep them in plain order.
    let mut magic = std::hint::black_box(*REVERSED);
    magic.reverse();
    magic
}

/// The most bytes of a start record or a manifest: a damaged header may claim any number.
const MOST: u64 = 1 << 30;

/// A range of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl Span {
    /// The range's end, if it is below 2^64.
    pub(super) fn end(self) -> Option<u64> {
        self.offset.checked_add(self.length)
    }
}

/// The header's fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SealPlace {
    pub(super) length: u64,
    pub(super) record: Span,
    pub(super) manifest: Span,
    pub(super) base_length: u64,
    pub(super) sha256: [u8; 32],
}

impl SealPlace {
    /// The fields in 128 bytes of a file.
    pub(super) fn read(part: Part<'_>, offset: u64) -> Result<SealPlace, Flaw> {
        let bytes = part.read(offset, LENGTH)?;
        let mut words = bytes[32..80]
            .chunks_exact(8)
            .map(|word| word.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)));
        let mut next = || words.next().unwrap_or_default();
        let length = next();
        let record = Span { offset: next(), length: next() };
        let manifest = Span { offset: next(), length: next() };
        let base_length = next();
        let mut sha256 = [0; 32];
        sha256.copy_from_slice(&bytes[80..112]);
        Ok(SealPlace { length, record, manifest, base_length, sha256 })
    }

    /// Whether the program is not sealed.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes()[32..].iter().all(|byte| *byte == 0)
    }

    /// Whether the parts lie one behind the other, in a file with the header at an offset.
    pub(super) fn is_in_order(&self, at: u64) -> bool {
        let ends = [at.checked_add(LENGTH), self.record.end(), self.manifest.end()];
        let [Some(header), Some(record), Some(manifest)] = ends else { return false };
        header <= self.base_length
            && self.base_length <= self.record.offset
            && record <= self.manifest.offset
            && manifest <= self.length
            && [self.record, self.manifest].iter().all(|span| span.length <= MOST)
    }

    /// The 128 bytes.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let words = [
            self.length,
            self.record.offset,
            self.record.length,
            self.manifest.offset,
            self.manifest.length,
            self.base_length,
        ];
        let mut bytes = magic().to_vec();
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(self.sha256);
        bytes.resize(LENGTH as usize, 0);
        bytes
    }
}

/// How many bytes are searched at once.
const CHUNK: u64 = 1 << 20;

/// The headers in the parts of a program that are mapped. A program that compares the magic bytes may hold them a second
/// time, in front of anything: a header ends with zeroes.
pub(super) fn find(elf: &Elf, part: Part<'_>) -> Result<Vec<(u64, SealPlace)>, Flaw> {
    let mut found = Vec::new();
    for offset in find_magic(elf, part)? {
        if part.length() - offset >= LENGTH
            && part.read(offset + HASH.end, LENGTH - HASH.end)?.iter().all(|byte| *byte == 0)
        {
            found.push((offset, SealPlace::read(part, offset)?));
        }
    }
    Ok(found)
}

fn find_magic(elf: &Elf, part: Part<'_>) -> Result<BTreeSet<u64>, Flaw> {
    let magic = magic();
    let mut found = BTreeSet::new();
    for segment in elf.loads() {
        let range = range_in_file(segment, part.length());
        let mut start = range.start;
        while start < range.end {
            // Chunks overlap by one byte less than the magic bytes have.
            let end = range.end.min(start + CHUNK + magic.len() as u64 - 1);
            let chunk = part.read(start, end - start)?;
            found.extend(
                chunk
                    .windows(magic.len())
                    .enumerate()
                    .filter(|(_, window)| window[0] == magic[0] && *window == magic)
                    .map(|(index, _)| start + index as u64),
            );
            start += CHUNK;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::trial;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    #[test]
    fn the_magic_is_that_of_the_runtime() {
        assert_eq!(&magic(), b"hydrozoa sealed application v1\0\0");
    }

    #[test]
    fn fields_are_read_as_they_were_written() {
        let place = SealPlace {
            length: 1,
            record: Span { offset: 2, length: 3 },
            manifest: Span { offset: u64::MAX, length: 5 },
            base_length: 6,
            sha256: [7; 32],
        };
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&place.bytes(), 10).unwrap();
        assert_eq!(place.bytes().len(), 128);
        assert_eq!(SealPlace::read(Part::new(&file, 0, 138), 10).unwrap(), place);
        assert!(SealPlace::read(Part::new(&file, 0, 137), 10).is_err());
    }

    #[test]
    fn one_place_is_found_in_a_program_and_none_in_another() {
        let directory = tempfile::tempdir().unwrap();
        let places = |path: &std::path::Path| {
            let file = File::open(path).unwrap();
            let part = Part::new(&file, 0, file.metadata().unwrap().len());
            find(&Elf::read(part).unwrap(), part).unwrap()
        };
        let base = trial::base(directory.path());
        let found = places(&base);
        assert_eq!(found.len(), 1);
        let (offset, place) = &found[0];
        assert!(place.is_empty());
        assert_eq!(std::fs::read(base).unwrap()[*offset as usize..][..32], magic());
        assert!(places("/bin/sh".as_ref()).is_empty());
        let compared = trial::SOURCE.replace(
            "int main(void) {",
            "int main(void) { if (place[5]) __builtin_puts(\"hydrozoa sealed application v1\");",
        );
        let compared = trial::compiled(directory.path(), "compared", &compared, &[]).unwrap();
        assert_eq!(places(&compared).len(), 1);
    }
}
