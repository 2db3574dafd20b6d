//! The faults of packages.

use hydrozoa_loader::remedy;
use std::path::PathBuf;

/// Why a package, or something in it, could not be used.
///
/// An archive is untrusted input: no variant is a mistake of the caller, except
/// [`PackageError::NoRecord`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackageError {
    /// The file could not be opened or mapped.
    #[error("cannot open the package {}: {source}{}", path.display(), remedy(source))]
    Open {
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// The file is not a zip archive.
    #[error(
        "{package} is not a zip archive: {reason}; a package is a file that torch.package.PackageExporter or \
         `hydrozoa package` has written"
    )]
    NotZip {
        /// The package.
        package: String,
        /// The fault that the reader found.
        reason: String,
    },
    /// The file begins as a zip archive and does not end as one.
    #[error(
        "{package} is truncated or damaged: it begins as a zip archive, and its directory of \
         records cannot be read ({reason}); copy it again from where it was exported"
    )]
    Truncated {
        /// The package.
        package: String,
        /// The fault that the reader found.
        reason: String,
    },
    /// Its directory and its records contradict each other.
    #[error("{package} is damaged: {reason}; copy it again from where it was exported")]
    Damaged {
        /// The package.
        package: String,
        /// The fault that the reader found.
        reason: String,
    },
    /// It is a zip archive of another kind.
    #[error("{package} is not a torch.package archive: it has no record {missing}; {hint}")]
    NotPackage {
        /// The file.
        package: String,
        /// A record that every package has.
        missing: &'static str,
        /// The file's apparent kind.
        hint: &'static str,
    },
    /// A record is unusable.
    #[error("{package}: the record {record} {reason}; export the package again")]
    Record {
        /// The package.
        package: String,
        /// The record's path in it.
        record: String,
        /// Why the record is unusable.
        reason: String,
    },
    /// A record's bytes are not those that were written.
    #[error(
        "{package}: the record {record} is damaged: its CRC-32 is {found:08x}, and the archive \
         says {expected:08x}; copy the package again from where it was exported"
    )]
    Checksum {
        /// The package.
        package: String,
        /// The record's path in it.
        record: String,
        /// The checksum in the archive.
        expected: u32,
        /// The checksum of the record's bytes.
        found: u32,
    },
    /// A record's name would leave the package.
    #[error(
        "{package}: the record name {record:?} is refused: {reason}; torch.package writes no such name: export it again"
    )]
    Path {
        /// The package.
        package: String,
        /// The name as it stands in the archive.
        record: String,
        /// Which rule it breaks.
        reason: &'static str,
    },
    /// The package asks for more than [`Limits`](crate::package::Limits) allows.
    #[error(
        "{package}: {what} is {found}, more than the limit of {limit}; raise {setting} if you trust it"
    )]
    Limit {
        /// The package.
        package: String,
        /// The item that is too large.
        what: String,
        /// How large it is.
        found: u64,
        /// How large it may be.
        limit: u64,
        /// The field of [`Limits`](crate::package::Limits) that sets the limit.
        setting: &'static str,
    },
    /// Modules that the object needs cannot be packaged.
    #[error("{target} cannot be packaged:{}", list(problems))]
    Build {
        /// The `MODULE:CALLABLE` that was to be packaged.
        target: String,
        /// Each problem with the path that leads to it, and what to do about it.
        problems: Vec<String>,
    },
    /// The record does not exist.
    #[error("{package} has no record {record}; {}", nearest_or_all(nearest.as_deref()))]
    NoRecord {
        /// The package.
        package: String,
        /// The path asked for.
        record: String,
        /// A record of the same file name, if there is one.
        nearest: Option<String>,
    },
}

fn nearest_or_all(nearest: Option<&str>) -> String {
    nearest.map_or_else(
        || "Archive::records lists those that it has".to_owned(),
        |nearest| format!("did you mean {nearest}?"),
    )
}

fn list(problems: &[String]) -> String {
    problems.iter().map(|problem| format!("\n  {problem}")).collect()
}
