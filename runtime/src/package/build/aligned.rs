//! Libraries at the start of pages, from where interpreters map them (`libraries.rs`).
//!
//! torch's writer puts every record at a multiple of 64 bytes. An archive with libraries is written anew with these at multiples of
//! [`PAGE`]; the order of records and their bytes stay.

use crate::package::Archive;
use crate::package::libraries::is_library;
use crate::{Error, Result};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

/// The page that most machines have, in bytes. Where pages are larger, a library is copied to a memory file.
const PAGE: u16 = 4096;

/// The place of any other record.
const ALIGNMENT: u16 = 64;

/// Above this a record needs 64-bit sizes (APPNOTE.TXT, 4.5.3).
const LARGE: usize = u32::MAX as usize;

/// Moves the libraries of the archive at `path` to the start of pages, if it has some.
pub(super) fn align(path: &Path) -> Result<()> {
    let archive = Archive::open(path)?;
    if archive.libraries().next().is_none() {
        return Ok(());
    }
    let partial = path.with_extension("aligned");
    let failed = |source: std::io::Error| Error::Io { path: partial.clone(), source };
    let written = File::create(&partial)
        .and_then(|file| write(&archive, file).map_err(std::io::Error::other))
        .and_then(|()| fs::rename(&partial, path));
    written.map_err(|source| {
        drop(fs::remove_file(&partial));
        failed(source)
    })
}

fn write(archive: &Archive, file: File) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut writer = ZipWriter::new(BufWriter::new(file));
    for (name, record) in archive.in_order() {
        let bytes = archive.read(record)?;
        let alignment = if is_library(record) { PAGE } else { ALIGNMENT };
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .last_modified_time(DateTime::default())
            .with_alignment(alignment)
            .large_file(bytes.len() >= LARGE);
        writer.start_file(name, options)?;
        writer.write_all(&bytes)?;
    }
    writer.finish()?.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: [(&str, &[u8]); 4] = [
        ("model/.data/extern_modules", b"torch\n"),
        ("model/kernels/ops.cpython-311.so", b"\x7fELF of a library"),
        ("model/.data/0.storage", &[7; 100]),
        ("model/kernels.libs/libone.so.1", b"\x7fELF of another"),
    ];

    #[test]
    fn libraries_begin_at_pages_and_all_records_stay_as_they_were() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.pt");
        let mut writer = ZipWriter::new(File::create(&path).unwrap());
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        for (name, bytes) in RECORDS {
            writer.start_file(name, options).unwrap();
            writer.write_all(bytes).unwrap();
        }
        writer.finish().unwrap();
        align(&path).unwrap();
        let archive = Archive::open(&path).unwrap();
        archive.verify().unwrap();
        let order: Vec<String> = archive.in_order().into_iter().map(|(name, _)| name).collect();
        assert_eq!(order, RECORDS.map(|(name, _)| name));
        for (name, bytes) in RECORDS {
            let record = name.strip_prefix("model/").unwrap();
            assert_eq!(archive.read(record).unwrap(), bytes, "{name}");
            let place = archive.place(record).unwrap().start;
            let alignment = if is_library(record) { PAGE } else { ALIGNMENT };
            assert_eq!(place % usize::from(alignment), 0, "{name}");
        }
    }

    #[test]
    fn an_archive_without_libraries_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.pt");
        let mut writer = ZipWriter::new(File::create(&path).unwrap());
        writer.start_file(RECORDS[0].0, SimpleFileOptions::default()).unwrap();
        writer.write_all(RECORDS[0].1).unwrap();
        writer.finish().unwrap();
        let before = fs::read(&path).unwrap();
        align(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}
