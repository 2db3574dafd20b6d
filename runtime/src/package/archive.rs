//! A torch.package archive, checked when it is opened.

use super::PackageError;
use super::device_storages::Residents;
use super::directory::{StoredRecord, directory, reason};
use super::libraries::Libraries;
use super::limits::Limits;
use super::mapping::{Mapping, Reader};
use crate::movable::memory::SharedRange;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zip::ZipArchive;
use zip::result::ZipError;

/// Alignment in bytes that torch gives to records and expects of storages
/// (`kFieldAlignment` in caffe2/serialize/inline_container.cc, `gAlignment` in c10).
const ALIGNMENT: usize = 64;

/// A torch.package archive: its records, mapped into memory and checked.
///
/// [`Archive::open`] checks that the file is a zip archive and a package, that names stay inside it,
/// that records lie inside the file and do not overlap, that the [`Limits`] hold, and the CRC-32 of
/// modules and pickles. The CRC-32 of another record is checked when the record is read. Storages
/// are used in place and not checked: only [`Archive::verify`] reads all their pages.
///
/// A handle: clones refer to the same archive.
#[derive(Clone)]
pub struct Archive(Arc<Inner>);

struct Inner {
    label: String,
    mapping: Arc<Mapping>,
    zip: ZipArchive<Reader>,
    records: BTreeMap<String, StoredRecord>,
    extern_modules: Vec<String>,
    python_version: Option<String>,
    libraries: Libraries,
    residents: Residents,
}

impl Archive {
    /// Maps and checks a file. Nobody may change the file in place or cut it off while it is mapped: a read of what is gone
    /// ends the process (SIGBUS). A new file in its place does no harm.
    ///
    /// # Errors
    ///
    /// A [`PackageError`] that names the fault.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, PackageError> {
        Self::open_with(path, Limits::default())
    }

    /// As [`Archive::open`], with other limits.
    ///
    /// # Errors
    ///
    /// As [`Archive::open`].
    pub fn open_with(path: impl AsRef<Path>, limits: Limits) -> Result<Self, PackageError> {
        let path = path.as_ref();
        Self::check(path.display().to_string(), Mapping::file(path)?, limits)
    }

    /// Copies an archive from memory and checks it. `label` stands for it in messages.
    ///
    /// # Errors
    ///
    /// As [`Archive::open`].
    pub fn from_bytes(label: &str, bytes: &[u8]) -> Result<Self, PackageError> {
        Self::check(label.to_owned(), Mapping::bytes(bytes)?, Limits::default())
    }

    /// As [`Archive::from_bytes`], from a reader, to its end.
    ///
    /// # Errors
    ///
    /// As [`Archive::open`]; [`PackageError::Open`] if reading fails.
    pub fn from_reader(label: &str, mut reader: impl Read) -> Result<Self, PackageError> {
        let mut bytes = Vec::new();
        reader
            .read_to_end(&mut bytes)
            .map_err(|source| PackageError::Open { path: label.into(), source })?;
        Self::from_bytes(label, &bytes)
    }

    fn check(label: String, mapping: Mapping, limits: Limits) -> Result<Self, PackageError> {
        let mapping = Arc::new(mapping);
        let (zip, records) = directory(&label, &mapping, limits)?;
        let mut inner = Inner {
            label,
            mapping,
            zip,
            records,
            extern_modules: Vec::new(),
            python_version: None,
            libraries: Libraries::default(),
            residents: Residents::default(),
        };
        inner.check_kind()?;
        inner.check_code()?;
        inner.extern_modules = inner
            .text(".data/extern_modules")?
            .lines()
            .filter(|line| !line.is_empty())
            .map(str::to_owned)
            .collect();
        if inner.records.contains_key(".data/python_version") {
            inner.python_version = Some(inner.text(".data/python_version")?.trim().to_owned());
        }
        Ok(Self(Arc::new(inner)))
    }

    /// The archive's path, or the label that it was given.
    pub fn label(&self) -> &str {
        &self.0.label
    }

    /// The paths of its records in ascending order, without the archive's top folder.
    pub fn records(&self) -> impl Iterator<Item = &str> {
        self.0.records.keys().map(String::as_str)
    }

    /// The names of all records in the file, in its order, each with its path without the top folder.
    pub(super) fn in_order(&self) -> Vec<(String, &str)> {
        let mut records: Vec<_> = self.0.records.iter().collect();
        records.sort_by_key(|(_, record)| record.start);
        let named = |(path, record): (&'_ String, &StoredRecord)| {
            // A name that is not UTF-8 has been refused.
            let name = self.0.zip.name_for_index(record.index)?.ok()?.into_owned();
            Some((name, self.0.records.get_key_value(path)?.0.as_str()))
        };
        records.into_iter().filter_map(named).collect()
    }

    /// Where a record that is not compressed lies in the file.
    pub(super) fn place(&self, record: &str) -> Option<Range<usize>> {
        let entry = self.0.records.get(record).filter(|entry| !entry.compressed)?;
        Some(entry.start..entry.start + entry.size)
    }

    /// The records that match a pattern: `*` and `?` match within a part of the path, `**` any number
    /// of parts, as in `model/*.pkl` and `**/*.py`. An invalid pattern matches nothing.
    pub fn find<'a>(&'a self, pattern: &str) -> impl Iterator<Item = &'a str> {
        let options = glob::MatchOptions { require_literal_separator: true, ..Default::default() };
        let pattern = glob::Pattern::new(pattern).ok();
        self.records().filter(move |record| {
            pattern.as_ref().is_some_and(|pattern| pattern.matches_with(record, options))
        })
    }

    /// Whether it has that record.
    pub fn contains(&self, record: &str) -> bool {
        self.0.records.contains_key(record)
    }

    /// The size in bytes of a record.
    ///
    /// # Errors
    ///
    /// [`PackageError::NoRecord`].
    pub fn size(&self, record: &str) -> Result<usize, PackageError> {
        self.0.entry(record).map(|entry| entry.size)
    }

    /// A copy of a record's bytes, checked.
    ///
    /// # Errors
    ///
    /// [`PackageError::NoRecord`], [`PackageError::Checksum`], or [`PackageError::Record`] if the
    /// record cannot be inflated.
    pub fn read(&self, record: &str) -> Result<Vec<u8>, PackageError> {
        self.0.read(record)
    }

    /// A record as UTF-8 text.
    ///
    /// # Errors
    ///
    /// As [`Archive::read`], and [`PackageError::Record`] if the record is not UTF-8.
    pub fn read_text(&self, record: &str) -> Result<String, PackageError> {
        self.0.text(record)
    }

    /// A resource of a package, as `importer.load_binary(package, resource)`.
    ///
    /// # Errors
    ///
    /// As [`Archive::read`].
    pub fn load_binary(&self, package: &str, resource: &str) -> Result<Vec<u8>, PackageError> {
        self.0.read(&resource_path(package, resource))
    }

    /// A text resource of a package, as `importer.load_text(package, resource)`.
    ///
    /// # Errors
    ///
    /// As [`Archive::read_text`].
    pub fn load_text(&self, package: &str, resource: &str) -> Result<String, PackageError> {
        self.0.text(&resource_path(package, resource))
    }

    /// The modules that the package takes from the machine.
    pub fn extern_modules(&self) -> &[String] {
        &self.0.extern_modules
    }

    /// The version of the Python that wrote the package, such as `3.11.7`, if it is recorded.
    pub fn python_version(&self) -> Option<&str> {
        self.0.python_version.as_deref()
    }

    /// Checks the CRC-32 of every record, which reads the whole file.
    ///
    /// A storage that this process has written (by an in-place operation on a weight) fails the check,
    /// because its pages differ from the file.
    ///
    /// # Errors
    ///
    /// The first record that is damaged.
    pub fn verify(&self) -> Result<(), PackageError> {
        for (name, entry) in &self.0.records {
            if entry.compressed {
                self.0.read(name)?;
            } else {
                self.0.check_sum(name, entry)?;
            }
        }
        Ok(())
    }

    /// A record as memory that all interpreters share: its pages in the mapping. A compressed or
    /// unaligned record is copied once.
    pub(crate) fn memory(&self, record: &str) -> Result<Arc<SharedRange>, PackageError> {
        let inner = &self.0;
        let entry = inner.entry(record)?;
        if let Some(memory) = entry.shared.get() {
            return Ok(Arc::clone(memory));
        }
        if entry.compressed || entry.start % ALIGNMENT != 0 {
            let bytes = inner.read(record)?;
            return Ok(Arc::clone(entry.shared.get_or_init(|| SharedRange::of_bytes(&bytes))));
        }
        Ok(Arc::clone(entry.shared.get_or_init(|| {
            let start = inner.mapping.at(entry.start);
            // SAFETY: the range lies in the mapping (checked by `directory`), which the memory
            // keeps mapped.
            unsafe { SharedRange::of_mapping(start, entry.size, Arc::clone(&inner.mapping)) }
        })))
    }

    /// Where its shared libraries are.
    pub(super) fn provided(&self) -> &Libraries {
        &self.0.libraries
    }

    /// Its records that are on devices.
    pub(super) fn residents(&self) -> &Residents {
        &self.0.residents
    }

    /// The whole file.
    pub(crate) fn mapping(&self) -> &Arc<Mapping> {
        &self.0.mapping
    }
}

impl fmt::Debug for Archive {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Archive")
            .field("label", &self.0.label)
            .field("records", &self.0.records.len())
            .finish_non_exhaustive()
    }
}

impl Inner {
    /// Checks that it is a package of a kind that this machine can use.
    fn check_kind(&self) -> Result<(), PackageError> {
        if !self.records.contains_key(".data/extern_modules") {
            let hint = if self.records.contains_key("constants.pkl") {
                "it looks like TorchScript, which torch.jit.load reads"
            } else if self.records.contains_key("data.pkl") {
                "it looks like a file of torch.save, which torch.load reads"
            } else {
                "was it written by torch.package.PackageExporter, and was the exporter closed?"
            };
            return Err(PackageError::NotPackage {
                package: self.label.clone(),
                missing: ".data/extern_modules",
                hint,
            });
        }
        for name in ["byteorder", ".data/byteorder"] {
            if self.records.contains_key(name) && self.text(name)?.trim() != "little" {
                return Err(self.unusable(name, "says that storages are big-endian".to_owned()));
            }
        }
        Ok(())
    }

    /// Checks that code and pickles are as they were written: a damaged one would raise some exception in
    /// the middle of an import. They are small. Storages are large, and damage in them raises nothing.
    fn check_code(&self) -> Result<(), PackageError> {
        let is_code = |name: &str| name.ends_with(".py") || name.ends_with(".pkl");
        for (name, entry) in self.records.iter().filter(|(name, _)| is_code(name)) {
            if entry.compressed {
                self.read(name)?;
            } else {
                self.check_sum(name, entry)?;
            }
        }
        Ok(())
    }

    fn entry(&self, record: &str) -> Result<&StoredRecord, PackageError> {
        self.records.get(record).ok_or_else(|| {
            let last = record.rsplit('/').next().unwrap_or(record);
            let nearest = self.records.keys().find(|name| name.rsplit('/').next() == Some(last));
            PackageError::NoRecord {
                package: self.label.clone(),
                record: record.to_owned(),
                nearest: nearest.cloned(),
            }
        })
    }

    fn read(&self, record: &str) -> Result<Vec<u8>, PackageError> {
        let entry = self.entry(record)?;
        if !entry.compressed {
            let bytes = self.mapping.copy(entry.start, entry.stored);
            if !entry.checked.load(Ordering::Relaxed) {
                self.check_sum(record, entry)?;
            }
            return Ok(bytes);
        }
        // Cloning shares the directory.
        let mut zip = self.zip.clone();
        let unusable = |error: ZipError| {
            self.unusable(record, format!("cannot be inflated: {}", reason(&error)))
        };
        let file = zip.by_index(entry.index).map_err(unusable)?;
        let mut bytes = Vec::new();
        // At most the directory's size, which was checked against the limits.
        file.take(entry.size as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| unusable(ZipError::Io(error)))?;
        if bytes.len() != entry.size {
            return Err(self.unusable(
                record,
                format!("does not inflate to the {} bytes that it promises", entry.size),
            ));
        }
        self.compare(record, entry, crc32fast::hash(&bytes))?;
        Ok(bytes)
    }

    /// Checks a stored record in place.
    fn check_sum(&self, record: &str, entry: &StoredRecord) -> Result<(), PackageError> {
        self.compare(record, entry, self.mapping.crc32(entry.start, entry.stored))?;
        entry.checked.store(true, Ordering::Relaxed);
        Ok(())
    }

    fn compare(&self, record: &str, entry: &StoredRecord, found: u32) -> Result<(), PackageError> {
        if found == entry.crc32 {
            return Ok(());
        }
        Err(PackageError::Checksum {
            package: self.label.clone(),
            record: record.to_owned(),
            expected: entry.crc32,
            found,
        })
    }

    fn text(&self, record: &str) -> Result<String, PackageError> {
        String::from_utf8(self.read(record)?)
            .map_err(|error| self.unusable(record, format!("is not UTF-8 text: {error}")))
    }

    fn unusable(&self, record: &str, reason: String) -> PackageError {
        PackageError::Record { package: self.label.clone(), record: record.to_owned(), reason }
    }
}

/// The path of a resource: `("a.b", "c.pkl")` is `a/b/c.pkl`.
pub(super) fn resource_path(package: &str, resource: &str) -> String {
    if package.is_empty() {
        return resource.to_owned();
    }
    format!("{}/{resource}", package.replace('.', "/"))
}
