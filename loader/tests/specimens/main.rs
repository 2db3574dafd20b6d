//! Untrusted input, without a fuzzer: the inputs that fuzzing found, and a fixed number of its mutations.
//!
//! The fuzz targets (`loader/fuzz`) use the same mutations and the same model of relocation. The objects and the model have the
//! relocation types of x86-64.
#![cfg(target_arch = "x86_64")]

mod forge;
mod reading;
mod strategies;

use forge::{DATA, DYNAMIC, Forge, Symbol};
use hydrozoa_loader::testing::specimen::{Outcome, Rules, Specimen};
use hydrozoa_testkit::{model, mutate};
use proptest::prelude::*;

const R_64: u32 = 1;
const PC32: u32 = 2;
const GLOB_DAT: u32 = 6;
const JUMP_SLOT: u32 = 7;
const RELATIVE: u32 = 8;
const DTPMOD64: u32 = 16;
const DTPOFF64: u32 = 17;
const TPOFF64: u32 = 18;
const TLSDESC: u32 = 36;
const SIZE32: u32 = 32;
const SIZE64: u32 = 33;

/// STB_GLOBAL with STT_OBJECT, STT_FUNC, STT_TLS.
const OBJECT: u8 = 0x11;
const FUNCTION: u8 = 0x12;
const THREAD_LOCAL: u8 = 0x16;

fn symbol(name: &'static str, info: u8, section: u16, value: u64) -> Symbol {
    Symbol { name, info, section, value, size: 8 }
}

/// An object with a relocation of nearly every type.
fn whole() -> Forge {
    Forge {
        symbols: vec![
            symbol("counter", OBJECT, 1, DATA),
            symbol("malloc", FUNCTION, 0, 0),
            symbol("environ", OBJECT, 0, 0),
            symbol("own_thread_local", THREAD_LOCAL, 1, 8),
            symbol("nobody_defines_this", FUNCTION, 0, 0),
        ],
        rela: vec![
            (DATA, 0, RELATIVE, 0x123),
            (DATA + 8, 1, R_64, -8),
            (DATA + 16, 2, GLOB_DAT, 0),
            (DATA + 24, 3, R_64, 4),
            (DATA + 32, 4, DTPMOD64, 0),
            (DATA + 40, 4, DTPOFF64, 0),
            (DATA + 48, 0, DTPMOD64, 0),
            (DATA + 64, 4, TLSDESC, 0),
            (DATA + 80, 5, JUMP_SLOT, 0),
            (DATA + 88, 1, SIZE64, 1),
            (DATA + 96, 1, SIZE32, 1),
            (DATA + 100, 1, PC32, 0),
        ],
        relr: vec![DATA + 104, 0b1011],
        tls: Some((8, 16)),
        data: vec![0x11; 0x100],
        ..Forge::default()
    }
}

fn relocated(forge: &Forge) -> Outcome {
    let file = forge.build();
    let specimen = Specimen::in_memory(&file).unwrap();
    let outcome = specimen.relocate(Rules::Domain).unwrap();
    model::check(&file, &outcome);
    outcome
}

fn word(outcome: &Outcome, address: u64) -> u64 {
    let written = &outcome.written[0];
    let at = (address - written.address) as usize;
    u64::from_le_bytes(written.after[at..at + 8].try_into().unwrap())
}

#[test]
fn a_specimen_is_relocated_as_its_file_asks() {
    let outcome = relocated(&whole());
    assert_eq!(outcome.result, Ok(()));
    let bias = outcome.bias;
    assert_eq!(word(&outcome, DATA), bias + 0x123);
    assert_eq!(word(&outcome, DATA + 8), bias + DATA - 8);
    assert_eq!(word(&outcome, DATA + 88), 9, "the size of `counter` and one");
    let packed = 0x1111_1111_1111_1111u64.wrapping_add(bias);
    for address in [DATA + 104, DATA + 112, DATA + 128] {
        assert_eq!(word(&outcome, address), packed);
    }
}

#[test]
fn words_of_many_pages_in_a_row_are_written_wherever_they_lie_in_them() {
    const PAGES: u64 = 24;
    let pages = (1..PAGES).map(|page| DYNAMIC + page * 0x1000);
    let forge = Forge {
        // Half in the page, half in the next one.
        rela: pages.clone().map(|page| (page - 4, 0, RELATIVE, page as i64)).collect(),
        // All but the first two words and the last five.
        relr: pages.flat_map(|page| [page + 16].into_iter().chain([u64::MAX; 8])).collect(),
        data: (0..PAGES * 0x1000 / 8).flat_map(u64::to_le_bytes).collect(),
        ..Forge::default()
    };
    let outcome = relocated(&forge);
    assert_eq!(outcome.result, Ok(()));
    for page in (1..PAGES).map(|page| DYNAMIC + page * 0x1000) {
        assert_eq!(word(&outcome, page - 4), outcome.bias + page);
        assert_eq!(word(&outcome, page + 16), outcome.bias + (page + 16 - DATA) / 8);
        assert_eq!(word(&outcome, page + 4048), outcome.bias + (page + 4048 - DATA) / 8);
        assert_eq!(word(&outcome, page + 4056), (page + 4056 - DATA) / 8);
    }
}

#[test]
fn a_word_that_both_tables_name_is_relocated_by_the_packed_one_first() {
    let forge = Forge {
        rela: vec![(DATA, 0, RELATIVE, 0x40)],
        relr: vec![DATA, 0b11],
        data: vec![0; 16],
        ..Forge::default()
    };
    let outcome = relocated(&forge);
    assert_eq!(word(&outcome, DATA), outcome.bias + 0x40);
    assert_eq!(word(&outcome, DATA + 8), outcome.bias);
}

#[test]
fn a_packed_word_may_lie_behind_the_file_s_end() {
    let zeroes = DATA + 8;
    let forge = Forge {
        // Half in the file and half behind it; far behind it.
        relr: vec![zeroes - 4, zeroes + 0x8000],
        data: vec![1; 8],
        zeroes: 0x9000,
        ..Forge::default()
    };
    let outcome = relocated(&forge);
    assert_eq!(outcome.result, Ok(()));
    assert_eq!(word(&outcome, zeroes - 4), outcome.bias + 0x0101_0101);
    assert_eq!(word(&outcome, zeroes + 0x8000), outcome.bias);
}

#[test]
fn a_relative_relocation_may_lie_below_the_object() {
    let forge =
        Forge { rela: vec![(DATA, 0, RELATIVE, -0x10)], data: vec![0; 8], ..Forge::default() };
    let outcome = relocated(&forge);
    assert_eq!(word(&outcome, DATA), outcome.bias - 0x10);
}

#[test]
fn a_symbol_index_beyond_the_table_is_refused_before_room_is_made_for_it() {
    let forge = Forge { rela: vec![(DATA, u32::MAX, R_64, 0)], ..whole() };
    let error = Specimen::parse(&forge.build()).unwrap().plan(Rules::Domain).unwrap_err();
    assert!(error.to_string().contains("beyond the table"), "{error}");
}

#[test]
fn both_words_of_a_tls_index_lie_in_the_segment() {
    // With or without a symbol the second word may be the linker's, and here it lies beyond the segment.
    let mut forge = whole();
    forge.rela = vec![(DATA + forge.data.len() as u64 - 8, 0, DTPMOD64, 0)];
    let reason = relocated(&forge).result.unwrap_err();
    assert!(reason.contains("outside the writable segments"), "{reason}");
    forge.rela[0].1 = 4;
    let reason = relocated(&forge).result.unwrap_err();
    assert!(reason.contains("outside the writable segments"), "{reason}");
    forge.rela[0].0 -= 8;
    assert_eq!(relocated(&forge).result, Ok(()));
}

#[test]
fn mutated_objects_are_relocated_as_they_ask_or_refused() {
    let initial_exec = Forge { rela: vec![(DATA, 4, TPOFF64, 0)], ..whole() };
    let text = Forge { rela: vec![(0x180, 1, R_64, 0)], text_relocations: true, ..whole() };
    let seeds = [whole(), Forge { sysv_hash: true, ..whole() }, initial_exec, text];
    for seed in 0..3000 {
        let mut file = seeds[seed as usize % seeds.len()].build();
        // Some are mutated several times: the parser often refuses one change alone.
        for round in 0..=seed % 3 {
            mutate::mutate(&mut file, seed << 2 | round);
        }
        let Ok(specimen) = Specimen::in_memory(&file) else { continue };
        for name in specimen.read().symbols.iter().flatten() {
            specimen.look_up(name);
        }
        for bound in specimen.plan(Rules::Program).into_iter().flatten() {
            assert!(bound.own.is_none_or(|own| own == bound.name));
        }
        if specimen.span() <= 1 << 18
            && let Ok(outcome) = specimen.relocate(Rules::Domain)
        {
            model::check(&file, &outcome);
        }
    }
}

#[test]
fn a_read_only_segment_is_relocated_where_the_file_announces_that() {
    // Behind the program headers; one word is known with the plan, one narrow one is not.
    let rela = vec![(0x180, 0, RELATIVE, 0x123), (0x188, 1, SIZE32, 1), (DATA, 1, R_64, 0)];
    let forge = Forge { rela, relr: vec![0x190], text_relocations: true, ..whole() };
    let outcome = relocated(&forge);
    assert_eq!(outcome.result, Ok(()));
    let text = &outcome.written[0];
    let word = |at: usize| u64::from_le_bytes(text.after[at..at + 8].try_into().unwrap());
    assert_eq!([word(0x180), word(0x188), word(0x190)], [outcome.bias + 0x123, 9, outcome.bias]);
    let reason = relocated(&Forge { text_relocations: false, relr: Vec::new(), ..forge }).result;
    assert!(reason.unwrap_err().contains("outside the writable segments"));
}

#[test]
fn calls_that_are_a_part_of_all_relocations_are_applied_once() {
    let jump = |behind, size| Forge { jump: Some((behind, size)), ..whole() };
    // The last two of the twelve records, as old linkers do it; then all of them.
    for (behind, size) in [(240, 48), (0, 288)] {
        let outcome = relocated(&jump(behind, size));
        assert_eq!(outcome.result, Ok(()));
        assert_eq!(word(&outcome, DATA), outcome.bias + 0x123);
    }
}

#[test]
fn a_size_relocation_may_name_a_thread_local_symbol() {
    let forge = Forge { rela: vec![(DATA, 4, SIZE64, 2)], ..whole() };
    assert_eq!(word(&relocated(&forge), DATA), 10);
}

#[test]
fn a_distance_that_does_not_fit_is_an_error_and_not_cut_off() {
    let mut forge = Forge { rela: vec![(DATA, 6, PC32, 0)], ..whole() };
    // SHN_ABS: no object is within two gigabytes of address 16.
    forge.symbols.push(symbol("absolute", OBJECT, 0xfff1, 16));
    let outcome = relocated(&forge);
    assert_eq!(word(&outcome, DATA), 0x1111_1111_1111_1111);
    assert!(outcome.result.unwrap_err().contains("does not fit into 32 bits"));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_relocation_writes_is_what_the_records_ask_for(forge in strategies::forge()) {
        let file = forge.build();
        let specimen = Specimen::in_memory(&file).map_err(|error| TestCaseError::fail(error.to_string()))?;
        if let Ok(outcome) = specimen.relocate(Rules::Domain) {
            model::check(&file, &outcome);
        }
    }
}
