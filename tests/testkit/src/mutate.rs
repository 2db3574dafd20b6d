//! Mutations that know the format. Most bytes of a small library are padding, and a random change of a
//! header seldom reaches the next phase.

use crate::elf::{Elf, number};

/// A number in the file.
#[derive(Clone, Copy, Debug)]
struct Field {
    at: usize,
    width: usize,
}

/// libFuzzer gives a seed and wants the same mutation for it every time.
struct Random(fastrand::Rng);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.u64(..)
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0.usize(..limit.max(1))
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.below(from.len())])
    }
}

/// Changes one to four fields of the file in `data`. Returns whether it did. libFuzzer's own mutations get
/// the files that this cannot read, and every eighth of the others.
pub fn mutate(data: &mut [u8], seed: u32) -> bool {
    let mut random = Random(fastrand::Rng::with_seed(seed.into()));
    if random.below(8) == 0 {
        return false;
    }
    let tables = tables(data);
    if tables.iter().all(Vec::is_empty) {
        return false;
    }
    let landmarks = landmarks(data);
    for _ in 0..=random.below(4) {
        // Chooses a table first, so that the large tables do not get all of the changes.
        let filled: Vec<&Vec<Field>> = tables.iter().filter(|table| !table.is_empty()).collect();
        let table = filled[random.below(filled.len())];
        let Some(field) = random.pick(table) else { continue };
        let Some(old) = number(data, field.at, field.width) else { continue };
        let other = random.pick(table).and_then(|other| number(data, other.at, other.width));
        let new = value(&mut random, old, other, &landmarks);
        data[field.at..field.at + field.width].copy_from_slice(&new.to_le_bytes()[..field.width]);
    }
    true
}

/// A new value for a field that holds `old`, beside one that holds `other`.
fn value(random: &mut Random, old: u64, other: Option<u64>, landmarks: &[u64]) -> u64 {
    const EDGES: [u64; 20] = [
        0,
        1,
        2,
        3,
        7,
        8,
        16,
        24,
        0xfff,
        0x1000,
        0x7fff,
        0x8000,
        0xffff,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        0x1_0000_0000,
        0x7fff_ffff_ffff_ffff,
        0x8000_0000_0000_0000,
        u64::MAX,
    ];
    const STEPS: [u64; 6] = [1, 4, 8, 16, 24, 0x1000];
    let step = random.pick(&STEPS).unwrap_or(1);
    let step = if random.below(2) == 0 { step } else { step.wrapping_neg() };
    match random.below(8) {
        0 => random.pick(&EDGES).unwrap_or(0),
        1 => old ^ 1 << random.below(64),
        2 => old.wrapping_add(step),
        3 => other.unwrap_or(old),
        4 => random.pick(landmarks).unwrap_or(old),
        5 => random.pick(landmarks).unwrap_or(old).wrapping_add(step),
        // Relocation types, indices, flags.
        6 => random.below(48) as u64,
        _ => random.next() >> random.below(64),
    }
}

/// The addresses at which something begins or ends, and the sizes of segments.
fn landmarks(data: &[u8]) -> Vec<u64> {
    let elf = Elf::read(data);
    let mut landmarks = vec![data.len() as u64];
    for header in &elf.headers {
        let end = header.address.wrapping_add(header.memory_size);
        landmarks.extend([
            header.address,
            end,
            header.offset,
            header.file_size,
            header.memory_size,
        ]);
    }
    landmarks.extend(elf.dynamic.iter().map(|entry| entry.value));
    landmarks
}

/// The fields of each part of the file.
fn tables(data: &[u8]) -> Vec<Vec<Field>> {
    let elf = Elf::read(data);
    let fields = |at: usize, widths: &[usize]| {
        let mut at = at;
        let fields: Vec<Field> = widths
            .iter()
            .map(|&width| {
                at += width;
                Field { at: at - width, width }
            })
            .collect();
        fields
    };
    let all = |records: Vec<usize>, widths: &[usize]| -> Vec<Field> {
        records.into_iter().flat_map(|at| fields(at, widths)).collect()
    };
    // Tables that state their own size: as many words as libraries of this size use.
    let open = |tag: u64, width: usize| -> Vec<Field> {
        let start = elf.value(tag).and_then(|address| elf.offset_of(address));
        let words = start.into_iter().flat_map(|start| {
            (0..OPEN_TABLE / width).map(move |index| Field { at: start + index * width, width })
        });
        words.collect()
    };
    let symbols = elf.value(SYMTAB).and_then(|address| elf.offset_of(address));
    let symbols: Vec<usize> = symbols
        .into_iter()
        .flat_map(|start| (0..24).map(move |index| start + index * 24))
        .collect();
    let mut tables = vec![
        // e_ident, e_type, e_machine; then e_phoff, e_phentsize, e_phnum.
        [fields(4, &[1, 1]), fields(16, &[2, 2]), fields(32, &[8]), fields(54, &[2, 2])].concat(),
        elf.headers.iter().flat_map(|h| fields(h.at, &[4, 4, 8, 8, 8, 8, 8, 8])).collect(),
        elf.dynamic.iter().flat_map(|entry| fields(entry.at, &[8, 8])).collect(),
        all(elf.records(RELA, RELASZ, 24), &[8, 4, 4, 8]),
        all(elf.records(JMPREL, PLTRELSZ, 24), &[8, 4, 4, 8]),
        all(elf.records(RELR, RELRSZ, 8), &[8]),
        all(symbols, &[4, 1, 1, 2, 8, 8]),
        open(HASH, 4),
        open(GNU_HASH, 4),
        open(VERSYM, 2),
        open(VERNEED, 4),
        open(VERDEF, 4),
    ];
    for table in &mut tables {
        table
            .retain(|field| field.at.checked_add(field.width).is_some_and(|end| end <= data.len()));
    }
    tables
}

const OPEN_TABLE: usize = 256;
const HASH: u64 = 4;
const SYMTAB: u64 = 6;
const RELA: u64 = 7;
const RELASZ: u64 = 8;
const PLTRELSZ: u64 = 2;
const JMPREL: u64 = 23;
const RELRSZ: u64 = 35;
const RELR: u64 = 36;
const GNU_HASH: u64 = 0x6fff_fef5;
const VERSYM: u64 = 0x6fff_fff0;
const VERDEF: u64 = 0x6fff_fffc;
const VERNEED: u64 = 0x6fff_fffe;
