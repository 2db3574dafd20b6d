//! Why an interpreter is not settled.

use hydrozoa_loader::remedy;
use std::io;
use std::path::{Path, PathBuf};

/// Why [`Interpreter::settle`](crate::Interpreter::settle) has not settled an interpreter, or not all of it. The interpreter goes
/// on in every case.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Unsettled {
    /// Threads are inside of it. Another call may succeed when theirs have returned.
    #[error(
        "calls on it have not returned (threads inside: {visits}); settle it when nobody uses it, and not from inside of it"
    )]
    Visited {
        /// How many. The calling thread counts, if it is inside.
        visits: usize,
    },
    /// It has threads of its own, which may run: Python's (`threading`, the pools of `concurrent.futures`), or threads of native
    /// code that have entered Python.
    #[error(
        "threads that are not the application's have entered it and may run ({threads}); end them first, for example by \
         join() or an executor's shutdown()"
    )]
    Threads {
        /// How many.
        threads: usize,
    },
    /// It has sub-interpreters.
    #[error(
        "it has sub-interpreters, which may run ({interpreters}); end them first, for example by Interpreter.close()"
    )]
    SubInterpreters {
        /// How many.
        interpreters: usize,
    },
    /// The application has [`Buffer`](crate::Buffer)s or [`Tensor`](crate::Tensor)s over its Python memory, and may write it.
    #[error(
        "the application can write its memory (Buffers and Tensors over memory of Python: {loans}); drop them first"
    )]
    Lent {
        /// How many.
        loans: usize,
    },
    /// This process is a forked child of the one that has started it.
    #[error(
        "this process is a forked child of the one that has started it; settle interpreters before the fork"
    )]
    Forked,
    /// It has no addresses of its own: the system gave it none (`RLIMIT_AS`).
    #[error(
        "the system gave it no addresses of its own; raise the limit on address space (ulimit -v)"
    )]
    NoWindow,
    /// The files of the directory are in memory, as those of tmpfs are.
    #[error(
        "files in {} are in memory, so nothing would be gained; name a directory on a disk",
        directory.display()
    )]
    InMemory {
        /// The directory.
        directory: PathBuf,
    },
    /// The system has refused something. Pages that were settled before stay settled.
    #[error("{}: {source}{}", path.display(), remedy(source))]
    Io {
        /// The directory, or a file of the kernel's.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
}

impl Unsettled {
    pub(crate) fn io(path: &Path, source: io::Error) -> Self {
        Self::Io { path: path.to_owned(), source }
    }
}
