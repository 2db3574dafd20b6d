//! Cold memory: pages that lie in a file instead of in anonymous memory.
//!
//! Most of an interpreter's memory holds code, modules and documentation that it never asks for again. Anonymous
//! pages cannot leave memory without swap. So the pages are written to a file without a name, and the file is mapped in their
//! place, privately: the same bytes at the same addresses. The file leaves memory at once, and a page comes back when it is used.
//! The kernel may drop it again when memory is short. A page that is written becomes anonymous again, automatically.
//!
//! | file | is |
//! |---|---|
//! | `spans` | the memory of which pages may be exchanged |
//! | `pages` | which pages are exchanged |
//! | `exchange` | pages of a file in the place of anonymous ones |
//! | `file` | the file |
//! | `record` | the parts of an interpreter that lie in files |
//!
//! A mapped file is never written again, since a forked child may have its pages too. The next time, pages that have become
//! anonymous go to a further file. When the files take twice as many bytes as the interpreter, or too many mappings, all of it
//! goes to one new file. The kernel frees the old ones as their last mappings go.

mod exchange;
mod file;
mod pages;
mod record;
mod spans;

pub use crate::error::Unsettled;
pub(crate) use exchange::Exchange;
pub(crate) use file::{extend, leave_memory, unlinked};
pub(crate) use pages::{Pagemap, bytes};
pub use record::Settlings;
pub(crate) use record::{Extent, Loan, Record, Settling, Shared, Wish};
pub(crate) use spans::Spans;

use std::time::Duration;

/// The outcome of [`Interpreter::settle`](crate::Interpreter::settle).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settled {
    /// Bytes that were written to the file.
    pub written: u64,
    /// Bytes of `memory` that are still anonymous pages.
    pub anonymous: u64,
    /// Bytes of the memory that was to be moved, in all ([`Interpreter::settle`](crate::Interpreter::settle)).
    pub memory: u64,
    /// How long it took.
    pub elapsed: Duration,
}
