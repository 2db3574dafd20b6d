//! Damaged copies of a sealed file: no panic, and each flip is found.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{Error, Sealed, trial};
use crate::file::place;

/// A file that is damaged and mended in place.
struct Patient {
    _directory: tempfile::TempDir,
    path: std::path::PathBuf,
    file: File,
    whole: Vec<u8>,
}

impl Patient {
    fn new() -> Patient {
        let directory = tempfile::tempdir().unwrap();
        let path = trial::sealed(directory.path());
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let whole = fs::read(&path).unwrap();
        Patient { _directory: directory, path, file, whole }
    }

    fn write(&self, at: usize, bytes: &[u8]) {
        self.file.write_all_at(bytes, at as u64).unwrap();
    }

    fn mend(&self, at: usize, length: usize) {
        self.write(at, &self.whole[at..at + length]);
    }
}

fn read(path: &Path) -> Result<(), Error> {
    let sealed = Sealed::open(path)?;
    assert!(!sealed.show(true).is_empty());
    assert!(!sealed.cyclonedx().is_empty());
    sealed.verify()
}

#[test]
fn each_flipped_byte_of_header_record_and_manifest_is_found() {
    let patient = Patient::new();
    read(&patient.path).unwrap();
    let sealed = Sealed::open(&patient.path).unwrap();
    let span = |offset: u64, length: u64| offset as usize..(offset + length) as usize;
    let (record, manifest) = (sealed.place.record, sealed.place.manifest);
    let ranges = [
        // The headers of ELF, and the first of program headers.
        0..120,
        span(sealed.at, place::LENGTH),
        span(record.offset, record.length),
        span(manifest.offset, manifest.length),
    ];
    for at in ranges.into_iter().flatten() {
        for flip in [0x01, 0x80, 0xff] {
            patient.write(at, &[patient.whole[at] ^ flip]);
            let error = read(&patient.path).expect_err("a byte was flipped").to_string();
            assert!(error.contains("app: ") && !error.contains('\n'), "byte {at}: {error}");
        }
        patient.mend(at, 1);
    }
    read(&patient.path).unwrap();
}

#[test]
fn each_truncation_is_an_error() {
    let patient = Patient::new();
    for length in (0..patient.whole.len()).rev() {
        patient.file.set_len(length as u64).unwrap();
        let error = read(&patient.path).expect_err("the file is truncated");
        let told = matches!(error, Error::NotSealed { .. } | Error::Truncated { .. });
        assert!(told, "{length}: {error}");
    }
}

#[test]
fn ten_thousand_damages_are_found() {
    let patient = Patient::new();
    let mut random = fastrand::Rng::with_seed(47);
    for round in 0..10_000 {
        let count = random.usize(1..=4);
        let damages: Vec<_> = (0..count)
            .map(|_| {
                let length = random.usize(1..=16);
                (random.usize(0..patient.whole.len() - length), length)
            })
            .collect();
        for (at, length) in &damages {
            let byte = random.u8(..);
            let bytes: Vec<u8> = match random.u8(0..3) {
                0 => vec![byte; *length],
                1 => (0..*length).map(|_| random.u8(..)).collect(),
                _ => vec![patient.whole[*at] ^ (byte | 1)],
            };
            patient.write(*at, &bytes);
        }
        let is_damaged = fs::read(&patient.path).unwrap() != patient.whole;
        assert_eq!(read(&patient.path).is_err(), is_damaged, "round {round}: {damages:?}");
        damages.iter().for_each(|(at, length)| patient.mend(*at, *length));
    }
    read(&patient.path).unwrap();
}
