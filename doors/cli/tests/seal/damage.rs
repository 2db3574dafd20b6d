//! A damaged application says so, and never panics.

use crate::application::application;
use std::env;
use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::process::{Command, Output};

/// The length of the application's executable before it was sealed. These tests damage the bytes behind it; the executable itself is the
/// machine's to run.
fn base_length(file: &[u8]) -> u64 {
    let magic = b"hydrozoa sealed application v1\0\0";
    let number = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap());
    let mut places = file.windows(magic.len()).enumerate().filter(|(_, window)| *window == magic);
    // The program may have the same bytes elsewhere, for a comparison.
    let own = places.find(|(at, _)| number(at + 32) == file.len() as u64);
    number(own.expect("it is sealed").0 + 72)
}

#[test]
fn a_truncated_file_is_named_in_one_line() {
    let whole = application().file();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("short");
    fs::copy(&whole, &file).unwrap();
    let length = fs::metadata(&file).unwrap().len();
    let base = base_length(&fs::read(&whole).unwrap());
    let cuts = [length - 1, length - (length - base) / 3, base + 5000];
    for cut in cuts {
        fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(cut).unwrap();
        let looked = Command::new(env!("CARGO_BIN_EXE_hydrozoa"))
            .args(["seal", "--verify"])
            .arg(&file)
            .output();
        for Output { status, stderr, .. } in
            [Command::new(&file).output().unwrap(), looked.unwrap()]
        {
            let text = String::from_utf8(stderr).unwrap();
            assert_eq!(status.code(), Some(1), "{cut}: {text}");
            assert!(text.lines().count() == 1 && text.contains(file.to_str().unwrap()), "{text}");
            assert!(
                text.contains(&cut.to_string()) && text.contains(&length.to_string()),
                "{text}"
            );
        }
    }
}

#[test]
fn every_flipped_byte_is_found_and_no_start_panics() {
    let whole = application().file();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("damaged");
    fs::copy(&whole, &file).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    let bytes = fs::read(&whole).unwrap();
    let (base, length) = (base_length(&bytes), bytes.len() as u64);
    // Places all over what was added, more of them in the records at its end.
    let step = (length - base) / 7;
    let places = (0..7)
        .map(|index| base + index * step + 11)
        .chain((1..=9).map(|index| length - index * 701));
    for place in places {
        let original = bytes[place as usize];
        let handle = fs::OpenOptions::new().write(true).open(&file).unwrap();
        handle.write_all_at(&[original ^ 0x55], place).unwrap();
        drop(handle);
        let command = Command::new(env!("CARGO_BIN_EXE_hydrozoa"))
            .args(["seal", "--verify"])
            .arg(&file)
            .output()
            .unwrap();
        let text = String::from_utf8(command.stderr).unwrap();
        assert_eq!(command.status.code(), Some(1), "byte {place} is found: {text}");
        let started = Command::new(&file).args(["say", "print(1)"]).output().unwrap();
        let text = String::from_utf8_lossy(&started.stderr);
        assert!(!text.contains("panicked"), "byte {place}: {text}");
        let handle = fs::OpenOptions::new().write(true).open(&file).unwrap();
        handle.write_all_at(&[original], place).unwrap();
    }
}

/// How many damaged files are started. `HYDROZOA_TEST_DAMAGE=10000` takes some minutes.
const STARTS: u64 = 40;

#[test]
fn a_damaged_file_neither_panics_nor_hangs_nor_fails_in_silence() {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse().ok());
    let seed = number("HYDROZOA_TEST_SEED").unwrap_or(1);
    let mut random = fastrand::Rng::with_seed(seed);
    let whole = application().file();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("damaged");
    fs::copy(&whole, &file).unwrap();
    let bytes = fs::read(&whole).unwrap();
    let (base, length) = (base_length(&bytes), bytes.len() as u64);
    for index in 0..number("HYDROZOA_TEST_DAMAGE").unwrap_or(STARTS) {
        // Code and text of libraries are the most of it. Half of the damages are in the records behind them.
        let first = if index % 2 == 0 { base } else { length - (length - base) / 50 };
        let damages: Vec<_> =
            (0..random.u32(1..4)).map(|_| (random.u64(first..length), random.u8(..))).collect();
        let write = |bytes: &dyn Fn(u64, u8) -> u8| {
            let handle = fs::OpenOptions::new().write(true).open(&file).unwrap();
            for (place, byte) in &damages {
                handle.write_all_at(&[bytes(*place, *byte)], *place).unwrap();
            }
        };
        write(&|_, byte| byte);
        let started = Command::new("timeout")
            .arg("60")
            .arg(&file)
            .args(["say", "import json; print(6 * 7)"])
            .output();
        let Output { status, stderr, .. } = started.unwrap();
        let text = String::from_utf8_lossy(&stderr);
        let told = format!("seed {seed}, file {index}, {damages:?}: {status}, {text}");
        assert!(!text.contains("panicked") && status.code() != Some(124), "{told}");
        // Machine code that is another one may end the process by any signal.
        let is_told = status.success() || status.code().is_none() || !text.is_empty();
        assert!(is_told, "{told}");
        write(&|place, _| bytes[place as usize]);
    }
}
