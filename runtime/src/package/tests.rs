//! Faulty archives.

use super::append::append;
use super::{Archive, PackageError};
use crate::imports::Imports;
use std::fs;
use std::io::{Cursor, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

const EXTERNS: (&str, &[u8]) = ("top/.data/extern_modules", b"torch\nsys\n");

fn zip(records: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(method);
    for (name, bytes) in records {
        writer.start_file(*name, options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn stored(records: &[(&str, &[u8])]) -> Vec<u8> {
    zip(records, CompressionMethod::Stored)
}

fn open(bytes: &[u8]) -> Result<Archive, PackageError> {
    Archive::from_bytes("test", bytes)
}

#[test]
fn records_are_read_without_the_top_folder() {
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let records: &[(&str, &[u8])] =
            &[EXTERNS, ("top/.data/python_version", b"3.11.7\n"), ("top/a/b.txt", b"text")];
        let archive = open(&zip(records, method)).unwrap();
        assert_eq!(archive.extern_modules(), ["torch", "sys"]);
        assert_eq!(archive.python_version(), Some("3.11.7"));
        assert_eq!(archive.load_text("a", "b.txt").unwrap(), "text");
        assert_eq!(archive.memory("a/b.txt").unwrap().len(), 4);
        archive.verify().unwrap();
    }
}

#[test]
fn damaged_bytes_are_found_when_they_are_read() {
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let text: Vec<u8> = (0..4000_u32).flat_map(|i| (i * 7919).to_le_bytes()).collect();
        let mut bytes = zip(&[EXTERNS, ("top/a", &text)], method);
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        let archive = open(&bytes).unwrap();
        let error = archive.read("a").unwrap_err();
        assert!(
            matches!(error, PackageError::Checksum { .. } | PackageError::Record { .. }),
            "{error}"
        );
        assert!(archive.verify().is_err());
    }
}

/// Each byte changed, and each prefix: an error or the right content, never a panic.
#[test]
fn no_change_of_a_small_archive_is_worse_than_an_error() {
    let records: &[(&str, &[u8])] =
        &[EXTERNS, ("top/a.py", b"x = 1\n"), ("top/m/b.pkl", b"\x80\x03K\x01.")];
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let whole = zip(records, method);
        let changed = (0..whole.len()).flat_map(|at| {
            [0x01, 0x20, 0x80, 0xff].map(|bits| {
                let mut bytes = whole.clone();
                bytes[at] ^= bits;
                bytes
            })
        });
        let cut = (0..whole.len()).map(|len| whole[..len].to_vec());
        for bytes in changed.chain(cut) {
            let Ok(archive) = open(&bytes) else { continue };
            for (name, content) in records {
                let name = name.trim_start_matches("top/");
                if let Ok(read) = archive.read(name) {
                    assert_eq!(read, *content);
                }
            }
        }
    }
}

#[test]
fn a_profile_of_imports_is_read_from_its_record_and_nothing_else_passes_for_one() {
    const RECORD: &str = "top/.data/hydrozoa/imports";
    let profile: &[u8] = b"hydrozoa imports 1\n= python 3.11\n+ torch\n- torch.fx\n";
    assert!(matches!(open(&stored(&[EXTERNS])).unwrap().imports(), Ok(Imports::Eager)));
    let whole = stored(&[EXTERNS, (RECORD, profile)]);
    let Ok(Imports::Profile(found)) = open(&whole).unwrap().imports() else { panic!("none") };
    assert_eq!(found.to_string().as_bytes(), profile);
    for other in [&b"hydrozoa imports 1\ntorch\n"[..], b"torch\n", b"", b"\xff"] {
        let error = open(&stored(&[EXTERNS, (RECORD, other)])).unwrap().imports().unwrap_err();
        assert!(matches!(error, PackageError::Record { .. }), "{error:?}");
    }
    let at = whole.windows(profile.len()).position(|bytes| bytes == profile).unwrap();
    let mut damaged = whole;
    damaged[at + profile.len() - 2] ^= 1;
    let error = open(&damaged).unwrap().imports().unwrap_err();
    assert!(matches!(error, PackageError::Checksum { .. }), "{error:?}");
}

#[test]
fn a_signature_is_read_from_its_record_and_nothing_else_passes_for_one() {
    const RECORD: &str = "top/.data/hydrozoa/signature";
    const HEAD: &str = "hydrozoa signature 1\nbatch 8\n";
    assert_eq!(open(&stored(&[EXTERNS])).unwrap().signature().unwrap(), None);
    let text = format!(
        "{HEAD}input 0 tensor float32 [-1,3] x\ninput 2 array text [-1] a name\noutput tensor bool [-1] OUTPUT__0\n"
    );
    let whole = stored(&[EXTERNS, (RECORD, text.as_bytes())]);
    let found = open(&whole).unwrap().signature().unwrap().unwrap();
    assert_eq!(found.to_string(), text);
    let (place, second) = &found.inputs[1];
    assert_eq!((*place, &*second.name, &second.shape[..]), (2, "a name", &[None][..]));
    for (lines, words) in [
        ("", "its first line is not `hydrozoa signature 1`"),
        ("hydrozoa signature 1\nbatch x\n", "`batch x` is not a line of one"),
        ("hydrozoa signature 1\nother\n", "`other` is not a line of one"),
        (
            "hydrozoa signature 1\ninput 0 tensor float32 3 x\n",
            "`tensor float32 3 x` describes no tensor",
        ),
        (
            "hydrozoa signature 1\ninput 0 thing float32 [3] x\n",
            "`thing float32 [3] x` describes no tensor",
        ),
        ("hydrozoa signature 1\noutput tensor float32 [3] \n", "describes no tensor"),
        (
            "hydrozoa signature 1\nbatch 2\noutput tensor float32 [3] x\n",
            "x has no extent for the batch",
        ),
        (
            "hydrozoa signature 1\noutput tensor bool [] x\noutput tensor bool [] x\n",
            "x is there twice",
        ),
        (
            "hydrozoa signature 1\ninput 1 tensor bool [] x\ninput 1 tensor bool [] y\n",
            "its inputs are in no order",
        ),
    ] {
        let archive = open(&stored(&[EXTERNS, (RECORD, lines.as_bytes())])).unwrap();
        let error = archive.signature().unwrap_err();
        assert!(matches!(error, PackageError::Record { .. }), "{error:?}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn a_record_that_is_added_leaves_all_others_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let (file, copy) = (folder.path().join("a.pt"), folder.path().join("b.pt"));
    let names: Vec<String> = (0..66_000).map(|number| format!("top/{number}")).collect();
    let mut many: Vec<(&str, &[u8])> = names.iter().map(|name| (&**name, &b"x"[..])).collect();
    many.push(EXTERNS);
    let few = &[EXTERNS, ("top/a.txt", b"text")][..];
    let (stored, deflated) = (CompressionMethod::Stored, CompressionMethod::Deflated);
    // The directory of the last archive has the larger form of its end.
    for (records, method) in [(few, stored), (few, deflated), (&many, stored)] {
        fs::write(&file, zip(records, method)).unwrap();
        append(&file, &copy, &[("folder/added", b"added")]).unwrap();
        let archive = Archive::open(&copy).unwrap();
        archive.verify().unwrap();
        assert_eq!(archive.records().count(), records.len() + 1);
        assert_eq!(archive.read("folder/added").unwrap(), b"added");
        let before = Archive::open(&file).unwrap();
        for record in before.records() {
            assert_eq!(before.read(record).unwrap(), archive.read(record).unwrap());
        }
        append(&copy, &file, &[("folder/second", b""), ("folder/third", b"3")]).unwrap();
        let archive = Archive::open(&file).unwrap();
        assert_eq!(archive.records().count(), records.len() + 3);
        assert_eq!(archive.read("folder/third").unwrap(), b"3");
    }
    fs::write(&file, b"no archive").unwrap();
    append(&file, &copy, &[("a", b"")]).unwrap_err();
}
