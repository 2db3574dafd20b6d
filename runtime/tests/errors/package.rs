//! Errors of packages: [`hydrozoa::package::PackageError`]. `PackageError::Build` needs torch: `errors_torch.rs`.

use crate::{directory, says};
use hydrozoa::package::{Archive, Limits, PackageError};
use std::fs;
use std::io::{Cursor, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

const EXTERNS: (&str, &[u8]) = ("top/.data/extern_modules", b"sys\n");

fn zipped(records: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(method);
    for (name, bytes) in [EXTERNS].iter().chain(records) {
        writer.start_file(*name, options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn stored(records: &[(&str, &[u8])]) -> Vec<u8> {
    zipped(records, CompressionMethod::Stored)
}

fn refusal(bytes: &[u8]) -> PackageError {
    Archive::from_bytes("model.pt", bytes).unwrap_err()
}

/// Where `bytes` has `wanted` for the `number`th time, from 0.
fn place(bytes: &[u8], wanted: &[u8], number: usize) -> usize {
    let mut places = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(wanted));
    places.nth(number).unwrap()
}

/// An archive in which two records share bytes.
fn sharing_bytes() -> Vec<u8> {
    // The content of `a` is the record `b`, which the directory lists too. A header ends with the name: 30 bytes before
    // it in front of the content, 46 in the directory (APPNOTE.TXT of PKWARE, 4.3).
    let inner = stored(&[("top/b", b"other")]);
    let (own, listed) = (place(&inner, b"top/b", 0) - 30, place(&inner, b"top/b", 1) - 46);
    let end = place(&inner, b"PK\x05\x06", 0);
    let record = &inner[own..place(&inner, b"PK\x01\x02", 0)];
    let mut bytes = stored(&[("top/a", record)]);
    let mut entry = inner[listed..end].to_vec();
    let begin = place(&bytes, record, 0) as u32;
    entry[42..46].copy_from_slice(&begin.to_le_bytes());
    let end = place(&bytes, b"PK\x05\x06", 0);
    for count in [end + 8, end + 10] {
        bytes[count] += 1;
    }
    let length = u32::from_le_bytes(bytes[end + 12..end + 16].try_into().unwrap());
    let length = length + entry.len() as u32;
    bytes[end + 12..end + 16].copy_from_slice(&length.to_le_bytes());
    bytes.splice(end..end, entry);
    bytes
}

#[test]
fn a_package_without_its_file_says_what_to_check() {
    let error = Archive::open("/nonexistent/model.pt").unwrap_err();
    assert!(matches!(error, PackageError::Open { .. }), "{error:?}");
    let parts =
        ["cannot open the package /nonexistent/model.pt: ", "(os error 2) (check the path)"];
    says(&error, &parts);
}

#[test]
fn an_archive_that_is_no_package_is_refused_with_the_reason_and_what_to_do() {
    const AGAIN: &str = "; copy it again from where it was exported";
    let whole = stored(&[("top/a.py", &[b'#'; 1000])]);
    let mut headers = stored(&[("top/a.txt", b"text")]);
    // The name in the record's own header; the second is in the directory.
    let at = place(&headers, b"top/a.txt", 0);
    headers[at + 4] = b'b';
    let kind = |name: &str| {
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        writer.start_file(name, SimpleFileOptions::default()).unwrap();
        writer.finish().unwrap().into_inner()
    };
    let not_zip = [
        "is not a zip archive: ",
        "; a package is a file that torch.package.PackageExporter or `hydrozoa package` has written",
    ];
    let truncated = ["is truncated or damaged: ", AGAIN];
    let other = "is not a torch.package archive: it has no record .data/extern_modules; ";
    let cases: [(&str, Vec<u8>, [&str; 2]); 9] = [
        ("NotZip", Vec::new(), not_zip),
        ("NotZip", b"text".to_vec(), not_zip),
        ("Truncated", whole[..whole.len() / 2].to_vec(), truncated),
        ("Truncated", whole[..whole.len() - 1].to_vec(), truncated),
        ("Damaged", headers, ["is damaged: ", AGAIN]),
        ("Damaged", sharing_bytes(), ["is damaged: ", AGAIN]),
        ("NotPackage", kind("top/data.pkl"), [other, "torch.load reads"]),
        ("NotPackage", kind("top/constants.pkl"), [other, "torch.jit.load reads"]),
        (
            "Record",
            stored(&[("top/byteorder", b"big")]),
            [
                "the record byteorder says that storages are big-endian",
                "; export the package again",
            ],
        ),
    ];
    for (variant, bytes, parts) in cases {
        let error = refusal(&bytes);
        let found = match &error {
            PackageError::NotZip { .. } => "NotZip",
            PackageError::Truncated { .. } => "Truncated",
            PackageError::Damaged { .. } => "Damaged",
            PackageError::NotPackage { .. } => "NotPackage",
            PackageError::Record { .. } => "Record",
            _ => "another one",
        };
        assert_eq!(found, variant, "{error:?}");
        says(&error, &[&["model.pt"], &parts[..]].concat());
    }
}

#[test]
fn a_damaged_record_is_named_with_both_checksums() {
    let mut bytes = stored(&[("top/a.txt", b"to be damaged")]);
    let at = place(&bytes, b"to be", 0);
    bytes[at] = b'T';
    let error = Archive::from_bytes("model.pt", &bytes).unwrap().read("a.txt").unwrap_err();
    assert!(matches!(error, PackageError::Checksum { .. }), "{error:?}");
    let parts =
        ["model.pt: the record a.txt is damaged: its CRC-32 is ", ", and the archive says "];
    says(&error, &[&parts[..], &["; copy the package again from where it was exported"]].concat());
}

#[test]
fn names_that_leave_the_package_are_refused_with_the_rule() {
    for name in ["top/../x", "top//x", "/etc/x", "other/x", "alone", "top\\x", "top/./x"] {
        let error = refusal(&stored(&[(name, b"")]));
        assert!(matches!(error, PackageError::Path { .. }), "{error:?}");
        let parts = [
            "model.pt: the record name ",
            " is refused: ",
            "; torch.package writes no such name: ",
        ];
        says(&error, &[&parts[..], &["export it again"]].concat());
    }
}

#[test]
fn a_package_beyond_a_limit_names_the_setting() {
    let file = directory("limit").join("model.pt");
    let zeros = vec![0; 2 << 20];
    fs::write(&file, zipped(&[("top/x", &zeros)], CompressionMethod::Deflated)).unwrap();
    let error = Archive::open(&file).unwrap_err();
    assert!(matches!(error, PackageError::Limit { .. }), "{error:?}");
    let parts = ["model.pt: the compression ratio of x is ", ", more than the limit of 200; "];
    says(&error, &[&parts[..], &["raise Limits::ratio if you trust it"]].concat());
    let mut limits = Limits::default();
    limits.ratio = 5000;
    assert_eq!(Archive::open_with(&file, limits).unwrap().size("x").unwrap(), zeros.len());
}

#[test]
fn a_record_that_is_missing_is_named_with_the_nearest_or_where_to_look() {
    let archive =
        Archive::from_bytes("model.pt", &stored(&[("top/model/model.pkl", b"x")])).unwrap();
    let error = archive.read("models/model.pkl").unwrap_err();
    assert!(matches!(error, PackageError::NoRecord { .. }), "{error:?}");
    says(&error, &["model.pt has no record models/model.pkl; did you mean model/model.pkl?"]);
    let error = archive.read("other").unwrap_err();
    says(&error, &["model.pt has no record other; Archive::records lists those that it has"]);
}
