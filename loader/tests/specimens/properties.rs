//! Properties of whole objects: what the loader reads and writes is what a naive reader finds.

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use proptest::sample::Index;

use super::elf::{Elf, number};
use super::forge::{DATA, Forge, Symbol};
use super::model;
use hydrozoa_loader::testing::specimen::{Rules, Specimen};

/// Names that collide in few buckets.
const NAMES: [&str; 12] =
    ["a", "b", "ab", "ba", "aB", "bA", "counter", "malloc", "environ", "errno", "no_such", "free"];

/// Relocations of x86-64 that most symbols can have: NONE, 64, GLOB_DAT, JUMP_SLOT, RELATIVE,
/// DTPMOD64, PC64, SIZE32, SIZE64, IRELATIVE, RELATIVE64.
const COMMON: [u32; 11] = [0, 1, 6, 7, 8, 16, 24, 32, 33, 37, 38];

/// Names that the system's libraries define; references, where they are symbols.
const SYSTEM: [&str; 3] = ["malloc", "environ", "free"];

/// Binding and type, section, value, size.
fn symbol() -> impl Strategy<Value = (u8, u16, u64, u64)> {
    // Global, weak and unique; without type, data, functions. Thread-local data has few relocations.
    let info = prop_oneof![
        29 => prop::sample::select(vec![0x10, 0x11, 0x12, 0x20, 0x21, 0x22, 0xa1]),
        1 => any::<u8>(),
    ];
    (info, prop::sample::select(vec![1, 0xfff1]), 0..0x20100u64, 0..0x1000u64)
}

/// An object of any symbols and relocations, whose words lie in the writable segment or near it.
fn forge() -> impl Strategy<Value = Forge> {
    let symbols = (btree_set(0..NAMES.len(), 0..NAMES.len()), vec(symbol(), NAMES.len()));
    // One record in a hundred lies anywhere near, one names any symbol, one is of any type.
    let kind = prop_oneof![99 => prop::sample::select(COMMON.to_vec()), 1 => 0..45u32];
    let at = prop_oneof![99 => 0..=0x38u64, 1 => 0..0x120u64];
    let symbol_index =
        prop_oneof![99 => any::<Index>().prop_map(Ok), 1 => (0..14u32).prop_map(Err)];
    let rela = vec((at, symbol_index, kind, -0x100..0x20000i64), 0..24);
    let relr = prop_oneof![Just(Vec::new()), vec((0..4u64, 0..0x20u8), 1..4).prop_map(packed)];
    let tls = proptest::option::weighted(0.9, (0..=0x40u64, 0..=0x40u64));
    let jump = proptest::option::weighted(0.2, (any::<Index>(), any::<Index>()));
    (symbols, rela, relr, tls, jump, any::<bool>(), vec(any::<u8>(), 0x40..0x100)).prop_map(
        |((names, kinds), rela, relr, tls, jump, sysv_hash, data)| {
            let symbols =
                names.into_iter().zip(kinds).map(|(name, (info, section, value, size))| Symbol {
                    name: NAMES[name],
                    info,
                    section: if SYSTEM.contains(&NAMES[name]) { 0 } else { section },
                    value,
                    size,
                });
            let symbols: Vec<Symbol> = symbols.collect();
            let any = symbols.len() as u32 + 1;
            let place = |(at, symbol, kind, addend): (u64, Result<Index, u32>, u32, i64)| {
                // RELATIVE and its kin have no symbol; DTPMOD64 without one is the object's own.
                let symbol = match symbol {
                    Ok(_) if [8, 16, 37, 38].contains(&kind) => 0,
                    Ok(symbol) => symbol.index(any as usize) as u32,
                    Err(symbol) => symbol,
                };
                (DATA + at, symbol, kind, addend)
            };
            let rela: Vec<_> = rela.into_iter().map(place).collect();
            let jump = jump.map(|(start, length)| {
                let start = start.index(rela.len() + 1);
                (24 * start as u64, 24 * length.index(rela.len() - start + 1) as u64)
            });
            let tls = tls.map(|(in_file, more)| (in_file, in_file + more));
            Forge { symbols, rela, jump, relr, tls, sysv_hash, data, gnu_hash: None }
        },
    )
}

/// An address and a bitmap behind it, some times.
fn packed(groups: Vec<(u64, u8)>) -> Vec<u64> {
    groups.into_iter().flat_map(|(at, bits)| [DATA + at * 8, u64::from(bits) << 1 | 1]).collect()
}

/// The records at these places of the file.
fn records(file: &[u8], places: &[usize]) -> Vec<(u64, u32, u32, i64)> {
    let word = |at| number(file, at, 8).expect("in the file");
    let record = |&at: &usize| {
        let info = word(at + 8);
        (word(at), info as u32, (info >> 32) as u32, word(at + 16) as i64)
    };
    places.iter().map(record).collect()
}

/// What the loader read of `file`, against a reader that checks nothing.
fn compare(file: &[u8], specimen: &Specimen) -> Result<(), TestCaseError> {
    let reading = specimen.read();
    let elf = Elf::read(file);
    let segments: Vec<[u64; 4]> = elf
        .loads()
        .map(|load| [load.address, load.memory_size, load.offset, load.file_size])
        .collect();
    prop_assert_eq!(reading.segments, segments);
    let rela = elf.records(7, 8, 24);
    let jump: Vec<usize> =
        elf.records(23, 2, 24).into_iter().filter(|at| !rela.contains(at)).collect();
    let expected: Vec<_> = [rela, jump].iter().flat_map(|places| records(file, places)).collect();
    prop_assert_eq!(reading.relocations, expected);
    prop_assert_eq!(reading.relative, model::packed(&elf, file));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_made_is_what_is_read(forge in forge()) {
        let file = forge.build();
        let specimen = Specimen::parse(&file).map_err(|error| TestCaseError::fail(error.to_string()))?;
        compare(&file, &specimen)?;
        let names: Vec<_> = specimen.read().symbols.into_iter().flatten().skip(1).collect();
        let made: Vec<_> = forge.symbols.iter().map(|s| s.name.as_bytes().to_vec()).collect();
        prop_assert_eq!(names, made);
        for name in NAMES {
            let defined = forge.symbols.iter().any(|s| s.name == name && is_definition(s));
            prop_assert_eq!(specimen.look_up(name.as_bytes()), defined, "{}", name);
        }
    }

    #[test]
    fn what_is_changed_is_read_as_it_is_or_refused(
        forge in forge(),
        damage in vec((any::<Index>(), any::<u8>(), 0usize..3), 1..6),
    ) {
        let mut file = forge.build();
        let tables = 0x200 + forge.symbols.len() * 24;
        for (at, value, part) in damage {
            // Headers; tables; the dynamic section.
            let (start, length) = [(0, 64 + 4 * 56), (0x200, tables - 0x200 + 1), (0x1000, 16 * 12)][part];
            file[start + at.index(length)] = value;
        }
        if let Ok(specimen) = Specimen::parse(&file) {
            compare(&file, &specimen)?;
        }
    }

    #[test]
    fn what_relocation_writes_is_what_the_records_ask_for(forge in forge()) {
        let file = forge.build();
        let specimen = Specimen::in_memory(&file).map_err(|error| TestCaseError::fail(error.to_string()))?;
        if let Ok(outcome) = specimen.relocate(Rules::Domain) {
            model::check(&file, &outcome);
        }
    }
}

/// Whether a lookup may end at the symbol (glibc's `do_lookup_x`): it is in a section or absolute,
/// visible to others, and of a type that has a value.
fn is_definition(symbol: &Symbol) -> bool {
    const BINDINGS: [u8; 3] = [1, 2, 10];
    const TYPES: [u8; 6] = [0, 1, 2, 5, 6, 10];
    let thread_local = symbol.info & 15 == 6;
    symbol.section != 0
        && (symbol.value != 0 || symbol.section == 0xfff1 || thread_local)
        && BINDINGS.contains(&(symbol.info >> 4))
        && TYPES.contains(&(symbol.info & 15))
}
