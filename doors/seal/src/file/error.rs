//! The errors of sealing, and of reading a sealed file.

use std::path::PathBuf;

/// A sealed application that could not be written or read. Each text names the file, and says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file could not be opened, read or written.
    #[error("{path}: cannot {action}: {source}")]
    Io {
        /// The file's path.
        path: PathBuf,
        /// The attempted action, as a verb phrase.
        action: &'static str,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// The executable is of a form that cannot be sealed.
    #[error(
        "{path}: cannot be sealed: {reason} (name a 64-bit executable for Linux on x86-64 or AArch64 that has the runtime)"
    )]
    Base {
        /// The executable's path.
        path: PathBuf,
        /// The rule that it breaks.
        reason: String,
    },
    /// The executable has no place for the header of a sealed application.
    #[error(
        "{path}: was not built with the feature `embed` of hydrozoa, so it cannot carry a Python (build it with the feature, \
         or leave the base executable away)"
    )]
    NoPlace {
        /// The executable's path.
        path: PathBuf,
    },
    /// The executable has several places for the header.
    #[error(
        "{path}: holds the runtime {count} times, so it is unclear which one would carry the Python (link hydrozoa once)"
    )]
    ManyPlaces {
        /// The executable's path.
        path: PathBuf,
        /// How many places it has.
        count: usize,
    },
    /// The executable carries an application already.
    #[error("{path}: is a sealed application already (name the executable that it was made of)")]
    SealedAlready {
        /// The executable's path.
        path: PathBuf,
    },
    /// A file has another length than when the places of the parts were chosen.
    #[error(
        "{path}: was changed while it was sealed: {expected} bytes were expected (seal again when nobody writes to it)"
    )]
    Changed {
        /// The file's path.
        path: PathBuf,
        /// Its length before.
        expected: u64,
    },
    /// A path that a sealed file cannot hold.
    #[error(
        "{path:?}: cannot be the path of a file in a sealed application: {reason} (rename the file, or leave it out)"
    )]
    Path {
        /// The path below the root.
        path: String,
        /// The rule that it breaks.
        reason: &'static str,
    },
    /// Two members of one kind have the same path.
    #[error("{path}: is put into the sealed application twice (leave one out)")]
    Twice {
        /// The path below the root.
        path: String,
    },
    /// A member's place is not one that a [`Layout`](super::Layout) gives.
    #[error(
        "{path}: was given a place that others use, or one that cannot be mapped (this is a defect of the sealer; report it)"
    )]
    Misplaced {
        /// The path below the root.
        path: String,
    },
    /// The file carries no application.
    #[error("{path}: is not a sealed application (`hydrozoa seal` makes them)")]
    NotSealed {
        /// The file's path.
        path: PathBuf,
    },
    /// The file's end is missing.
    #[error(
        "{path}: is truncated: it should have {expected} bytes and has {found} (copy it again, or seal again)"
    )]
    Truncated {
        /// The file's path.
        path: PathBuf,
        /// Its length when it was sealed.
        expected: u64,
        /// Its length now.
        found: u64,
    },
    /// A table of the file is not as the sealer writes it.
    #[error("{path}: is damaged: {reason} (copy it again, or seal again)")]
    Damaged {
        /// The file's path.
        path: PathBuf,
        /// The rule that it breaks.
        reason: String,
    },
    /// Bytes are not those that were sealed.
    #[error("{path}: is damaged: {} (copy it again, or seal again)", listed(parts))]
    Differs {
        /// The file's path.
        path: PathBuf,
        /// The parts in which bytes differ.
        parts: Vec<String>,
    },
    /// The folder for the files has files already.
    #[error(
        "{path}: is not empty (name a folder that is new or empty, so that no file is replaced)"
    )]
    NotEmpty {
        /// The folder's path.
        path: PathBuf,
    },
}

impl Error {
    /// The error of an operation of the system on a file.
    pub(super) fn io(
        path: impl Into<PathBuf>,
        action: &'static str,
    ) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::Io { path, action, source }
    }
}

/// How many parts a text names.
const NAMED: usize = 5;

fn listed(parts: &[String]) -> String {
    let named = parts.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match parts.len().saturating_sub(NAMED) {
        0 => format!("bytes differ in {named}"),
        more => format!("bytes differ in {named} and {more} more"),
    }
}
