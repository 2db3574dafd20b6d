//! Parsing: any bytes are an image or an error.

#![no_main]

use hydrozoa_loader::testing::specimen::Specimen;
use hydrozoa_testkit::mutate;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
    if mutate::mutate(&mut data[..size], seed) { size } else { fuzzer_mutate(data, size, max_size) }
});

fuzz_target!(|data: &[u8]| {
    let Ok(specimen) = Specimen::parse(data) else { return };
    let reading = specimen.read();
    for name in reading.symbols.iter().flatten() {
        specimen.look_up(name);
    }
    // The fuzzer sees the texts that names are compared with, and writes them into its inputs.
    let absent = b"a name that no library has";
    let is_there = data.windows(absent.len()).any(|bytes| bytes == absent);
    assert!(is_there || !specimen.look_up(absent));
});
