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
