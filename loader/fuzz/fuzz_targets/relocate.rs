//! Relocation into private memory, of which nothing is executed: it writes exactly the words that
//! the file asks for, and only where the file may write.

#![no_main]

use hydrozoa_loader::testing::specimen::{Rules, Specimen};
use hydrozoa_testkit::{model, mutate};
use libfuzzer_sys::{Corpus, fuzz_mutator, fuzz_target, fuzzer_mutate};

/// Images with more address space than this show nothing that smaller ones do not, and take long to
/// compare.
const GREATEST_SPAN: usize = 1 << 18;

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if mutate::mutate(&mut data[..size], seed) { size } else { fuzzer_mutate(data, size, max_size) }
});

fuzz_target!(|data: &[u8]| -> Corpus {
    let Ok(specimen) = Specimen::in_memory(data) else { return Corpus::Keep };
    if specimen.span() > GREATEST_SPAN {
        return Corpus::Reject;
    }
    if let Ok(outcome) = specimen.relocate(Rules::Domain) {
        model::check(data, &outcome);
    }
    Corpus::Keep
});
