//! An archive's directory. All of it is checked before any record is read.

use super::PackageError;
use super::limits::Limits;
use super::mapping::{Mapping, Reader};
use crate::movable::memory::SharedRange;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use zip::read::{ArchiveOffset, Config, ZipFile};
use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

/// One record.
pub(super) struct StoredRecord {
    /// Position in the zip archive's directory.
    pub(super) index: usize,
    /// Where its bytes begin in the file.
    pub(super) start: usize,
    /// Bytes in the file.
    pub(super) stored: usize,
    /// Bytes after inflating.
    pub(super) size: usize,
    pub(super) compressed: bool,
    pub(super) crc32: u32,
    pub(super) checked: AtomicBool,
    /// The bytes as memory that interpreters share, after the first request for it.
    pub(super) shared: OnceLock<Arc<SharedRange>>,
}

/// Reads the archive's directory and checks each entry.
pub(super) fn directory(
    label: &str,
    mapping: &Arc<Mapping>,
    limits: Limits,
) -> Result<(ZipArchive<Reader>, BTreeMap<String, StoredRecord>), PackageError> {
    let reader = Reader { mapping: Arc::clone(mapping), position: 0 };
    // A package begins at byte 0. If the zip crate searches for a prefix, it mistakes other bytes for
    // the directory in some of torch's archives.
    let config = Config { archive_offset: ArchiveOffset::Known(0) };
    let mut zip = ZipArchive::with_config(config, reader).map_err(|error| {
        let package = label.to_owned();
        let reason = reason(&error);
        // The magic number of a local header: the file was a zip archive.
        if mapping.len() >= 4 && mapping.copy(0, 4) == *b"PK\x03\x04" {
            PackageError::Truncated { package, reason }
        } else {
            PackageError::NotZip { package, reason }
        }
    })?;
    let mut checked = Checked { label, mapping, limits, top: None, inflated: 0 };
    let count = zip.len();
    let what = "the number of records".to_owned();
    checked.limit(what, count as u64, limits.records, "Limits::records")?;

    // The directory and each record's own header must agree. No name may appear twice. No two records may share bytes:
    // by them a small file could claim a huge content.
    zip.validate_header_consistency().map_err(|error| PackageError::Damaged {
        package: label.to_owned(),
        reason: reason(&error),
    })?;

    let mut records = BTreeMap::new();
    for index in 0..count {
        // Raw: the content is not opened, so that any compression and encryption can be named.
        let file = zip.by_index_raw(index).map_err(|error| {
            let reason = format!("has no usable header: {}", reason(&error));
            checked.record(&format!("#{index}"), reason)
        })?;
        records.extend(checked.entry(index, &file)?);
    }
    let what = "the inflated size of all records".to_owned();
    checked.limit(what, checked.inflated, limits.inflated_total, "Limits::inflated_total")?;
    Ok((zip, records))
}

/// The state of checking a directory.
struct Checked<'a> {
    label: &'a str,
    mapping: &'a Mapping,
    limits: Limits,
    /// The folder that all records share, once one was seen.
    top: Option<String>,
    /// The inflated sizes of all compressed records, in bytes.
    inflated: u64,
}

impl Checked<'_> {
    /// The record's name and what it promises; `None` for a folder.
    fn entry(
        &mut self,
        index: usize,
        file: &ZipFile<'_, Reader>,
    ) -> Result<Option<(String, StoredRecord)>, PackageError> {
        let full = std::str::from_utf8(file.name_raw()).map_err(|_| {
            self.record(&format!("#{index}"), "has a name that is not UTF-8".to_owned())
        })?;
        if full.ends_with('/') {
            return Ok(None);
        }
        let name = checked_name(self.label, full, &mut self.top)?;
        if file.encrypted() {
            return Err(self.record(&name, "is encrypted".to_owned()));
        }
        let compressed = match file.compression() {
            CompressionMethod::Stored => false,
            CompressionMethod::Deflated => true,
            other => {
                let reason = format!("is compressed by {other}; only deflate is supported");
                return Err(self.record(&name, reason));
            }
        };
        let outside = || self.record(&name, "reaches beyond the end of the file".to_owned());
        let start = file.data_start().and_then(|start| usize::try_from(start).ok());
        let start = start.ok_or_else(outside)?;
        let stored = usize::try_from(file.compressed_size()).map_err(|_| outside())?;
        if start > self.mapping.len() || stored > self.mapping.len() - start {
            return Err(outside());
        }
        let size = usize::try_from(file.size()).map_err(|_| outside())?;
        if compressed {
            self.inflated = self.inflated.saturating_add(file.size());
            self.inflates(&name, file.size(), stored as u64)?;
        } else if size != stored {
            let reason = format!("is stored as {stored} bytes and promises {size}");
            return Err(self.record(&name, reason));
        }
        let entry = StoredRecord {
            index,
            start,
            stored,
            size,
            compressed,
            crc32: file.crc32(),
            checked: AtomicBool::new(false),
            shared: OnceLock::new(),
        };
        Ok(Some((name, entry)))
    }

    /// A small record that promises a huge content is refused before anything is inflated.
    fn inflates(&self, name: &str, size: u64, stored: u64) -> Result<(), PackageError> {
        let what = format!("the inflated size of {name}");
        self.limit(what, size, self.limits.inflated_record, "Limits::inflated_record")?;
        if size > 1 << 20 {
            let what = format!("the compression ratio of {name}");
            self.limit(what, size / stored.max(1), self.limits.ratio, "Limits::ratio")?;
        }
        Ok(())
    }

    fn limit(
        &self,
        what: String,
        found: u64,
        limit: u64,
        setting: &'static str,
    ) -> Result<(), PackageError> {
        if found <= limit {
            return Ok(());
        }
        Err(PackageError::Limit { package: self.label.to_owned(), what, found, limit, setting })
    }

    fn record(&self, name: &str, reason: String) -> PackageError {
        PackageError::Record { package: self.label.to_owned(), record: name.to_owned(), reason }
    }
}

/// A record's name without the top folder, which all records must share (torch's writer puts the
/// archive's name in front of all names, and its reader takes it from the first one).
fn checked_name(label: &str, full: &str, top: &mut Option<String>) -> Result<String, PackageError> {
    let refused =
        |reason| PackageError::Path { package: label.to_owned(), record: full.to_owned(), reason };
    if full.starts_with('/') || full.contains('\\') || full.contains('\0') {
        return Err(refused("it must be a relative path with forward slashes"));
    }
    if full.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err(refused("it has an empty part, `.` or `..`"));
    }
    let (folder, name) =
        full.split_once('/').ok_or_else(|| refused("it is not inside the archive's top folder"))?;
    if top.get_or_insert_with(|| folder.to_owned()) != folder {
        return Err(refused("it is not inside the archive's top folder"));
    }
    Ok(name.to_owned())
}

/// The zip reader's reason for a failure.
pub(super) fn reason(error: &ZipError) -> String {
    match error {
        ZipError::Io(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            "the file ends too early".to_owned()
        }
        error => error.to_string(),
    }
}
