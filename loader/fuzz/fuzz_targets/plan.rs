//! Planning: every symbol that relocations name is bound, or the load fails; and the image's own
//! definitions are bound to symbols of the same name.

#![no_main]

use hydrozoa_loader::testing::specimen::{Rules, Specimen};
use hydrozoa_testkit::mutate;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if mutate::mutate(&mut data[..size], seed) { size } else { fuzzer_mutate(data, size, max_size) }
});

fuzz_target!(|data: &[u8]| {
    let Ok(specimen) = Specimen::parse(data) else { return };
    for rules in [Rules::Domain, Rules::Program] {
        for bound in specimen.plan(rules).into_iter().flatten() {
            assert!(bound.own.is_none_or(|own| own == bound.name));
        }
    }
});
