//! More records for an archive that is there.
//!
//! The other records stay where they are, so that storages keep their alignment, and so do their entries in the directory: writers of
//! the zip crate change times that they take for invalid, which the records' own headers then contradict.
//!
//! Names and numbers are those of APPNOTE.TXT, version 6.3.10, of PKWARE Inc.

use crate::Error as Failure;
use std::fs::{self, File, OpenOptions};
use std::io::{Error, Read, Result, Seek, SeekFrom, Write};
use std::path::Path;
use zip::ZipArchive;
use zip::read::{ArchiveOffset, Config};

/// 4.3.12, the fixed part of an entry of the directory.
const ENTRY: usize = 46;

/// Bit 11 of the flags: the name is UTF-8 (4.4.4). torch sets it, too.
const UTF8: u16 = 1 << 11;

/// The version of readers that is needed for archives beyond 4 GiB (4.4.3).
const ZIP64: u16 = 45;

/// Puts records into an archive that has none of them. The file is replaced atomically: open handles keep the old one.
pub(super) fn add(file: &Path, records: &[(&str, &[u8])]) -> crate::Result<()> {
    let partial = file.with_extension("partial");
    let added = append(file, &partial, records).and_then(|()| fs::rename(&partial, file));
    added.map_err(|source| {
        drop(fs::remove_file(&partial));
        Failure::Io { path: file.to_owned(), source }
    })
}

/// Copies an archive, with these records in its top folder besides.
pub(super) fn append(file: &Path, copy: &Path, records: &[(&str, &[u8])]) -> Result<()> {
    fs::copy(file, copy)?;
    let mut stream = OpenOptions::new().read(true).write(true).open(copy)?;
    let (start, count, top) = directory(&stream)?;
    let mut tail = Vec::new();
    stream.seek(SeekFrom::Start(start))?;
    stream.read_to_end(&mut tail)?;
    tail.truncate(length(&tail, count)?);
    stream.seek(SeekFrom::Start(start))?;
    let mut at = start;
    for (name, bytes) in records {
        let record = Record { name: format!("{top}/{name}"), bytes, start: at };
        let header = record.header();
        stream.write_all(&header)?;
        stream.write_all(bytes)?;
        tail.extend(record.entry());
        at += (header.len() + bytes.len()) as u64;
    }
    stream.write_all(&tail)?;
    let count = (count + records.len()) as u64;
    stream.write_all(&end(at, tail.len() as u64, count))?;
    let length = stream.stream_position()?;
    stream.set_len(length)
}

/// Where an archive's directory begins, how many entries it has, and the name of the top folder.
fn directory(stream: &File) -> Result<(u64, usize, String)> {
    // As in `directory`: a package begins at byte 0.
    let config = Config { archive_offset: ArchiveOffset::Known(0) };
    let mut archive = ZipArchive::with_config(config, stream).map_err(Error::other)?;
    let first = archive.by_index_raw(0).map_err(Error::other)?;
    let name = first.name().map_err(Error::other)?.into_owned();
    drop(first);
    let top = name.split('/').next().unwrap_or_default().to_owned();
    Ok((archive.central_directory_start(), archive.len(), top))
}

/// The bytes of a directory of `count` entries.
fn length(tail: &[u8], count: usize) -> Result<usize> {
    let mut at = 0;
    for _ in 0..count {
        let fixed = tail.get(at..at + ENTRY).filter(|entry| entry.starts_with(b"PK\x01\x02"));
        let fixed = fixed.ok_or_else(|| Error::other("an entry of the directory is damaged"))?;
        // The name, the extra fields and the comment.
        let sizes =
            fixed[28..34].chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        at += ENTRY + sizes.map(usize::from).sum::<usize>();
    }
    match at <= tail.len() {
        true => Ok(at),
        false => Err(Error::other("the last entry of the directory is damaged")),
    }
}

/// The record, as it stands: not compressed, of no time, as torch writes them.
struct Record<'a> {
    name: String,
    bytes: &'a [u8],
    /// Where its header begins.
    start: u64,
}

impl Record<'_> {
    /// The bytes that its header and its entry have in common, from the flags to the length of the name.
    fn common(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, &[&UTF8.to_le_bytes(), &[0; 2], &[0; 4]]);
        let size = u32::try_from(self.bytes.len()).expect("less than 4 GiB").to_le_bytes();
        put(&mut out, &[&crc32fast::hash(self.bytes).to_le_bytes(), &size, &size]);
        let name = u16::try_from(self.name.len()).expect("a short name");
        put(&mut out, &[&name.to_le_bytes()]);
        out
    }

    /// 4.3.7.
    fn header(&self) -> Vec<u8> {
        let mut out = b"PK\x03\x04\x14\0".to_vec();
        put(&mut out, &[&self.common(), &[0; 2], self.name.as_bytes()]);
        out
    }

    /// 4.3.12.
    fn entry(&self) -> Vec<u8> {
        let (start, extra) = match u32::try_from(self.start) {
            Ok(start) if start < u32::MAX => (start, Vec::new()),
            // 4.5.3: of the four fields, those that are too small stand here.
            _ => (u32::MAX, [&[1, 0, 8, 0][..], &self.start.to_le_bytes()].concat()),
        };
        let version = if extra.is_empty() { 20 } else { ZIP64 }.to_le_bytes();
        let mut out = b"PK\x01\x02".to_vec();
        put(&mut out, &[&version, &version, &self.common()]);
        put(&mut out, &[&(extra.len() as u16).to_le_bytes(), &[0; 2 + 2 + 2 + 4]]);
        put(&mut out, &[&start.to_le_bytes(), self.name.as_bytes(), &extra]);
        out
    }
}

/// The end of an archive: 4.3.16, behind 4.3.14 and 4.3.15 where a number is too large for it.
fn end(start: u64, size: u64, count: u64) -> Vec<u8> {
    let mut out = Vec::new();
    if start >= u64::from(u32::MAX) || size >= u64::from(u32::MAX) || count >= u64::from(u16::MAX) {
        let version = ZIP64.to_le_bytes();
        put(&mut out, &[b"PK\x06\x06", &44_u64.to_le_bytes(), &version, &version, &[0; 8]]);
        for number in [count, count, size, start] {
            put(&mut out, &[&number.to_le_bytes()]);
        }
        put(&mut out, &[b"PK\x06\x07", &[0; 4], &(start + size).to_le_bytes(), &[1, 0, 0, 0]]);
    }
    let count = u16::try_from(count).unwrap_or(u16::MAX).to_le_bytes();
    let [size, start] = [size, start].map(|it| u32::try_from(it).unwrap_or(u32::MAX).to_le_bytes());
    put(&mut out, &[b"PK\x05\x06", &[0; 4], &count, &count, &size, &start, &[0; 2]]);
    out
}

fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    out.extend(parts.concat());
}
