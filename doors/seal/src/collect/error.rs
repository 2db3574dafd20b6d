//! Why an application cannot be collected.

use std::io;
use std::path::PathBuf;

/// Why the members of a sealed file cannot be collected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CollectError {
    /// A file or directory cannot be read.
    #[error("{}: {source}; let this user read it, or leave it out with --without", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A name cannot stand in the records of a sealed file.
    #[error("{path:?}: {reason}; rename it, or leave it out with --without")]
    Name {
        /// The file or directory.
        path: PathBuf,
        /// The rule that the name breaks.
        reason: &'static str,
    },
    /// Two different files want the same place.
    #[error("{path} would be {} as well as {}; rename or leave out one of them", first.display(), second.display())]
    Twice {
        /// The place below the root of the sealed file.
        path: String,
        /// The file that was collected first.
        first: PathBuf,
        /// The file that was collected later.
        second: PathBuf,
    },
    /// The Python is unusable, or one of the interpreters that compile has failed.
    #[error(transparent)]
    Python(#[from] hydrozoa::Error),
    /// A file is not a shared library, although its name says so, or is damaged.
    #[error("{}: it is not a readable shared library: {reason}; install it again, or leave it out with --without", path.display())]
    Library {
        /// The file.
        path: PathBuf,
        /// The finding.
        reason: String,
    },
    /// The Python itself cannot be loaded.
    #[error("{} needs {needed}, which is not on this machine; install it, so that this Python runs", path.display())]
    Missing {
        /// The library of Python.
        path: PathBuf,
        /// The name that it asks for.
        needed: String,
    },
    /// A thing that the caller has named is not there, or does not fit.
    #[error("{0}")]
    Wish(String),
    /// The packages could not be installed.
    #[error("{packages} cannot be installed for Python 3.{minor}: {reason}")]
    Install {
        /// The requirements, as they were named.
        packages: String,
        /// The second number of the Python's version.
        minor: u8,
        /// The last words of the installer, or the reason why it did not run, and the remedy.
        reason: String,
    },
    /// The entry's module is not among the members.
    #[error(
        "the entry {entry} needs the module `{module}`, which is not in the file: it was looked for in {places}; \
         add it with --app, --script, --venv or --with"
    )]
    Entry {
        /// The entry, as it was named.
        entry: String,
        /// The first module of its name that is missing.
        module: String,
        /// The directories of the sealed search path.
        places: String,
    },
}

impl CollectError {
    /// Adds the path to an error of the system.
    pub(super) fn read(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Read { path, source }
    }
}
