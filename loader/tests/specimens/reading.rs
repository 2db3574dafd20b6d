//! Reading of files. These tests map no memory and ask nothing of the process, so all of them run under
//! Miri too.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use super::forge::{Forge, Symbol};
use super::strategies::{NAMES, forge};
use super::whole;
use hydrozoa_loader::testing::specimen::Specimen;
use hydrozoa_testkit::elf::{Elf, number};
use hydrozoa_testkit::model;

#[test]
fn both_hash_tables_lead_to_the_symbols() {
    for sysv_hash in [false, true] {
        let specimen = Specimen::parse(&Forge { sysv_hash, ..whole() }.build()).unwrap();
        assert!(specimen.look_up(b"counter") && !specimen.look_up(b"malloc"));
        assert_eq!(specimen.read().symbols.len(), 6);
    }
}

#[test]
fn a_hash_table_that_reaches_beyond_the_symbols_has_those_that_are_there() {
    // Its chains begin with the highest possible symbol index.
    let table = vec![1, u32::MAX, 1, 0, u32::MAX, u32::MAX, u32::MAX, 0];
    let specimen = Specimen::parse(&Forge { gnu_hash: Some(table), ..whole() }.build()).unwrap();
    assert_eq!(specimen.read().symbols.len(), 6);
    assert!(!specimen.look_up(b"counter"));
}

#[test]
fn a_symbol_may_claim_to_end_beyond_the_address_space() {
    let mut forge = whole();
    forge.symbols[0].value = u64::MAX - 1;
    assert!(Specimen::parse(&forge.build()).unwrap().look_up(b"counter"));
}

#[test]
fn a_symbol_with_a_binding_that_nobody_knows_answers_no_reference() {
    // Found by a property. glibc knows STB_GLOBAL, STB_WEAK and STB_GNU_UNIQUE.
    for (binding, answers) in
        [(0, false), (1, true), (2, true), (3, false), (10, true), (13, false)]
    {
        let mut forge = whole();
        forge.symbols[0].info = binding << 4 | 1;
        let specimen = Specimen::parse(&forge.build()).unwrap();
        assert_eq!(specimen.look_up(b"counter"), answers, "{binding}");
    }
}

#[test]
fn a_dynamic_section_that_other_tools_find_elsewhere_is_refused() {
    let mut file = whole().build();
    // p_offset of the third program header.
    let at = 64 + 2 * 56 + 8;
    assert_eq!(file[at..at + 8], 0x1000u64.to_le_bytes());
    file[at] = 0x10;
    let error = Specimen::parse(&file).unwrap_err();
    assert!(error.to_string().contains("elsewhere in the file"), "{error}");
}

#[test]
fn calls_that_are_a_part_of_all_relocations_are_whole_records_of_them() {
    // Found by fuzzing: the loader silently skipped a record that is not in DT_RELA.
    for (behind, size) in [(40, 24), (264, 48)] {
        let error =
            Specimen::parse(&Forge { jump: Some((behind, size)), ..whole() }.build()).unwrap_err();
        assert!(error.to_string().contains("DT_JMPREL overlaps DT_RELA"), "{error}");
    }
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

/// Compares what the loader read of `file` with the result of a reader that checks nothing.
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
