//! The process that threads and signals belong to.

use hydrozoa_loader::Process;

/// A process. Its children are others, that of vfork(2) too, which has its memory until it calls exec: threads and signals
/// of a child are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessIdentity {
    process: Process,
    /// The kernel's number. That of a child of vfork(2) differs, and [`Process`] does not.
    number: u32,
}

impl ProcessIdentity {
    /// That of the calling thread.
    pub(crate) fn current() -> Self {
        Self { process: Process::current(), number: std::process::id() }
    }

    /// Whether it is that of the calling thread.
    pub(crate) fn is_current(&self) -> bool {
        *self == Self::current()
    }
}
