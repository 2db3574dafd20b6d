//! Relocation records, read where they lie in the file.

use std::path::Path;

use crate::arch;
use crate::error::Error;

/// Size of `Elf64_Rela`, in bytes.
pub(crate) const RELA_SIZE: usize = 24;

/// One `Elf64_Rela`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rela {
    pub offset: u64,
    pub kind: u32,
    pub symbol: u32,
    pub addend: i64,
}

impl Rela {
    /// The records of a table whose length is a multiple of [`RELA_SIZE`].
    pub(crate) fn all(table: &[u8]) -> impl Iterator<Item = Rela> {
        table.chunks_exact(RELA_SIZE).map(|record| {
            let word =
                |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("eight bytes"));
            let info = word(8);
            Rela {
                offset: word(0),
                kind: info as u32,
                symbol: (info >> 32) as u32,
                addend: word(16) as i64,
            }
        })
    }
}

impl Error {
    /// A relocation of `object` that cannot be applied.
    pub(crate) fn relocation(object: &Path, index: usize, rela: &Rela, reason: String) -> Error {
        Error::Relocation {
            object: object.to_owned(),
            index,
            kind: arch::relocation_name(rela.kind),
            offset: rela.offset,
            reason,
        }
    }
}

/// The addresses that a DT_RELR table names (gABI, "Relative relocation table"): an even entry
/// is an address, an odd one a bitmap of the 63 words that follow the last address.
pub(crate) fn relr_addresses(table: &[u8]) -> impl Iterator<Item = u64> + '_ {
    let mut next = 0u64;
    table.chunks_exact(8).flat_map(move |entry| {
        let entry = u64::from_le_bytes(entry.try_into().expect("eight bytes"));
        let (first, bitmap) = if entry & 1 == 0 {
            let first = entry;
            next = entry.wrapping_add(8);
            (first, 1u64)
        } else {
            let first = next;
            next = next.wrapping_add(63 * 8);
            (first, entry >> 1)
        };
        (0..63)
            .filter(move |bit| bitmap >> bit & 1 != 0)
            .map(move |bit| first.wrapping_add(8 * bit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: &[u64]) -> Vec<u8> {
        entries.iter().flat_map(|entry| entry.to_le_bytes()).collect()
    }

    #[test]
    fn a_relr_bitmap_continues_after_the_address_before_it() {
        let table = table(&[0x1000, 0b1011, 0b11]);
        let addresses: Vec<_> = relr_addresses(&table).collect();
        assert_eq!(addresses, [0x1000, 0x1008, 0x1018, 0x1008 + 63 * 8]);
    }

    #[test]
    fn a_rela_record_is_split_into_symbol_and_type() {
        let record = table(&[0x20, (7 << 32) | 6, -8i64 as u64]);
        let rela = Rela::all(&record).next().unwrap();
        assert_eq!((rela.offset, rela.kind, rela.symbol, rela.addend), (0x20, 6, 7, -8));
    }
}
