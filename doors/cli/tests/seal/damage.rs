//! A damaged application says so, and never panics.

use crate::application::application;
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
