//! The effect that relocation must have on memory, one relocation after another, and the check of it.

use std::ops::Range;

use hydrozoa_loader::testing::specimen::Outcome;

use crate::elf::{Elf, LOAD, WRITABLE, number};

/// A relocation: the addresses that it names, and the values that it writes there.
struct Relocation {
    addresses: Range<u64>,
    value: Value,
}

enum Value {
    /// The word that was there, plus this.
    Added(u64),
    Word(u64),
    /// The value depends on a symbol.
    Unknown,
}

/// Compares the memory of a relocated specimen with its file's relocations.
///
/// # Panics
/// If a changed byte belongs to no relocation, or to no writable segment of a file that announces no text
/// relocations, or if a relocation without a symbol has another result than the psABI's.
pub fn check(file: &[u8], outcome: &Outcome) {
    let elf = Elf::read(file);
    let relocations = relocations(&elf, file, outcome.bias);
    let applied = outcome.result.is_ok();
    for written in &outcome.written {
        let mut expected = written.before.clone();
        for relocation in &relocations {
            let Some(segment) = segment_of(&elf, &relocation.addresses) else {
                assert!(!applied, "{:x?} was applied", relocation.addresses);
                continue;
            };
            let pages = written.address..written.address + written.before.len() as u64;
            if !pages.contains(&segment) {
                continue;
            }
            let start = (relocation.addresses.start - written.address) as usize;
            let length = (relocation.addresses.end - relocation.addresses.start) as usize;
            let place = start..start + length;
            match relocation.value {
                Value::Added(bias) if applied => {
                    let old = number(&expected, start, 8).expect("inside the segment");
                    expected[place].copy_from_slice(&old.wrapping_add(bias).to_le_bytes());
                }
                Value::Word(word) if applied => {
                    expected[place].copy_from_slice(&word.to_le_bytes());
                }
                // Only its place is known: not its value, nor whether it was reached.
                _ => expected[place.clone()].copy_from_slice(&written.after[place]),
            }
        }
        assert!(
            expected == written.after,
            "{:#x}: first other byte at {:?}; {:?}",
            written.address,
            expected.iter().zip(&written.after).position(|(expected, after)| expected != after),
            outcome.result,
        );
    }
}

/// The address of the segment that holds all of `addresses`, if relocations may write to it.
fn segment_of(elf: &Elf<'_>, addresses: &Range<u64>) -> Option<u64> {
    const DT_TEXTREL: u64 = 22;
    const DT_FLAGS: u64 = 30;
    const DF_TEXTREL: u64 = 4;
    let text = elf.value(DT_TEXTREL).is_some()
        || elf.value(DT_FLAGS).is_some_and(|flags| flags & DF_TEXTREL != 0);
    let inside = |load: &&crate::elf::ProgramHeader| {
        load.kind == LOAD
            && (text || load.flags & WRITABLE != 0)
            && addresses.start <= addresses.end
            && addresses.start >= load.address
            && addresses.end - load.address <= load.memory_size
    };
    elf.headers.iter().find(inside).map(|load| load.address)
}

/// All that the file asks for, in order. The model leaves out the results of resolvers.
fn relocations(elf: &Elf<'_>, file: &[u8], bias: u64) -> Vec<Relocation> {
    const RELATIVE: u32 = 8;
    const RELATIVE64: u32 = 38;
    const IRELATIVE: u32 = 37;
    const DTPMOD64: u32 = 16;
    const TLSDESC: u32 = 36;
    /// PC32, 32, SIZE32.
    const NARROW: [u32; 3] = [2, 10, 32];
    let relocation = |address: u64, size: u64, value| Relocation {
        addresses: address..address.wrapping_add(size),
        value,
    };
    let packed = packed(elf, file).into_iter();
    let mut all: Vec<Relocation> =
        packed.map(|address| relocation(address, 8, Value::Added(bias))).collect();
    let rela = elf.records(7, 8, 24);
    let jump = elf.records(23, 2, 24);
    // A DT_JMPREL that is part of DT_RELA is applied once.
    let jump = jump.iter().filter(|at| !rela.contains(at));
    for at in rela.iter().chain(jump) {
        let word = |offset| number(file, at + offset, 8).unwrap_or(0);
        let (address, info, addend) = (word(0), word(8), word(16));
        let kind = info as u32;
        let (size, value) = match kind {
            0 | IRELATIVE => continue,
            RELATIVE | RELATIVE64 => (8, Value::Word(bias.wrapping_add(addend))),
            TLSDESC => (16, Value::Unknown),
            DTPMOD64 => (16, Value::Unknown),
            kind if NARROW.contains(&kind) => (4, Value::Unknown),
            _ => (8, Value::Unknown),
        };
        all.push(relocation(address, size, value));
    }
    all
}

/// The addresses of DT_RELR, a bit at a time.
pub fn packed(elf: &Elf<'_>, file: &[u8]) -> Vec<u64> {
    let mut addresses = Vec::new();
    let mut next = 0u64;
    for at in elf.records(36, 35, 8) {
        let entry = number(file, at, 8).unwrap_or(0);
        if entry.is_multiple_of(2) {
            addresses.push(entry);
            next = entry.wrapping_add(8);
        } else {
            let bits = (1..64).filter(|bit| entry >> bit & 1 == 1);
            addresses.extend(bits.map(|bit| next.wrapping_add(8 * (bit - 1))));
            next = next.wrapping_add(8 * 63);
        }
    }
    addresses
}
