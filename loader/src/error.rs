//! The errors of a load, by phase.

use std::path::{Path, PathBuf};

/// The result of a loader operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed load. Each text names the object, and the symbol if one is involved, and says what to do.
///
/// A load that fails before its constructors run leaves no trace: nothing is published, and every
/// mapping is removed. System objects that it opened stay, since no domain owns them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened, read or mapped.
    #[error("{object}: cannot {action}: {source}{}", remedy(source))]
    Io {
        /// The file's path.
        object: PathBuf,
        /// The attempted action, as a verb phrase.
        action: &'static str,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// The file is not an ELF image that this loader accepts (untrusted data).
    #[error(
        "{object}: not a loadable ELF image: {reason} (name a shared object, or install the file again)"
    )]
    Malformed {
        /// The file's path.
        object: PathBuf,
        /// The rule that it breaks.
        reason: String,
    },
    /// The image is well formed but asks for something that is refused on purpose.
    #[error("{object}: refused: {reason}")]
    Refused {
        /// The file's path.
        object: PathBuf,
        /// The feature that it asks for, and why the loader refuses it.
        reason: String,
    },
    /// A needed library was not found.
    #[error(
        "{object}: cannot open shared object file: no such file in {searched} (needed by {requester}); install it, or \
         name its directory in LD_LIBRARY_PATH before the process starts"
    )]
    NotFound {
        /// The name as it stands in DT_NEEDED or as it was passed to `dlopen`.
        object: String,
        /// The object that asked for it.
        requester: String,
        /// The directories that were searched.
        searched: String,
    },
    /// A symbol is defined nowhere in the scope of its reference.
    #[error(
        "{object}: undefined symbol: {symbol}{} (install the versions of its needed libraries that it was built with)",
        version.as_ref().map(|version| format!(", version {version}")).unwrap_or_default()
    )]
    UndefinedSymbol {
        /// The object that refers to it.
        object: PathBuf,
        /// The symbol's name, as in the symbol table (mangled).
        symbol: String,
        /// The version asked for, if any.
        version: Option<String>,
    },
    /// A relocation that cannot be applied.
    #[error(
        "{object}: relocation {index} ({kind}) at {offset:#x}: {reason} (compile it with -fPIC, and link it with \
         -shared)"
    )]
    Relocation {
        /// The object that holds it.
        object: PathBuf,
        /// Its index in its table.
        index: usize,
        /// Its type's name in the psABI.
        kind: String,
        /// The address it applies to, relative to the image.
        offset: u64,
        /// Why it cannot be applied.
        reason: String,
    },
    /// Thread-local storage could not be given to the image.
    #[error("{object}: thread-local storage: {reason}")]
    Tls {
        /// The object that asks for it.
        object: PathBuf,
        /// The exhausted resource or unsupported feature, and the workaround.
        reason: String,
    },
    /// The system's own loader refused an object that is shared by all domains.
    #[error("{object}: the system loader refused it: {message} (LD_DEBUG=libs shows its search)")]
    System {
        /// The object's path or name.
        object: PathBuf,
        /// The text of `dlerror`.
        message: String,
    },
    /// The process does not offer what the loader relies on.
    #[error("the process cannot host replicas: {0}")]
    Unsupported(String),
    /// A memory operation failed.
    #[error("{object}: cannot {action} {length} bytes: {source}{}", remedy(source))]
    Memory {
        /// The object for which memory was asked.
        object: PathBuf,
        /// The attempted action.
        action: &'static str,
        /// Size in bytes.
        length: usize,
        /// The operating system's answer.
        source: std::io::Error,
    },
    /// A constructor of the object threw an exception. The object stays in its domain, and each further open of it,
    /// or of an object that needs it, gives this error again.
    #[error(
        "{object}: a constructor threw an exception: {exception} (mend its cause, and load it into a new domain)"
    )]
    Exception {
        /// The object whose code threw.
        object: PathBuf,
        /// The exception's type and, where it has one, its text.
        exception: String,
    },
    /// `Library::symbol` found nothing.
    #[error(
        "{object}: symbol {symbol} is not defined by it or its dependencies (give the name that `nm -D` prints)"
    )]
    NoSuchSymbol {
        /// The library that was asked.
        object: PathBuf,
        /// The symbol's name.
        symbol: String,
    },
    /// The object was asked for with `NOLOAD` and is not loaded.
    #[error(
        "{object}: is not loaded, and was asked for with NOLOAD (open it without NOLOAD first)"
    )]
    NotLoaded {
        /// The path as given.
        object: PathBuf,
    },
}

impl Error {
    /// The same error of a file, named as it was found.
    pub(crate) fn found_at(mut self, path: &Path) -> Self {
        if let Error::Io { object, .. }
        | Error::Malformed { object, .. }
        | Error::Refused { object, .. } = &mut self
        {
            *object = path.to_owned();
        }
        self
    }
}

/// A remedy for an operating system error, as the end of a message. Empty if none is known.
#[doc(hidden)]
pub fn remedy(source: &std::io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) => " (check the path)",
        Some(libc::EISDIR) => " (name a file)",
        Some(libc::EACCES) => " (check the permissions of the file and of its directories)",
        Some(libc::EPERM) => {
            " (the system forbids it: see the mount's options, seccomp and security modules)"
        }
        Some(libc::EMFILE) => " (raise the process's limit of open files: ulimit -n)",
        Some(libc::ENFILE) => " (raise the system's limit of open files: fs.file-max)",
        Some(libc::ENOSPC | libc::EDQUOT) => " (free space on the disk)",
        Some(libc::EIO) => " (the device failed: see the kernel's log)",
        // From pthread_create(3) and from mlock(2).
        Some(libc::EAGAIN) => {
            " (a limit is reached: of threads, see ulimit -u and pids.max, or of locked memory, see ulimit -l)"
        }
        // mmap(2) and mprotect(2): most often the limit on mappings, not on memory.
        Some(libc::ENOMEM) => {
            " (a limit is reached: of mappings, see vm.max_map_count, or of address space, see ulimit -v)"
        }
        _ => "",
    }
}
