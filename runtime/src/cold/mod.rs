//! Cold memory: pages that lie in a file instead of in anonymous memory.
//!
//! Most of what an interpreter has in memory is code, modules and documentation, which it does not ask for again. Anonymous
//! pages cannot leave memory without swap. So the pages are written to a file without a name, and the file is mapped in their
//! place, privately: the same bytes at the same addresses. The file leaves memory at once, and a page comes back when it is used.
//! The kernel may drop it again when memory is short. A page that is written becomes anonymous again, by itself.
//!
//! | file | is |
//! |---|---|
//! | `spans` | the memory of which pages may be exchanged |
//! | `pages` | which pages are exchanged |
//! | `exchange` | pages of a file in the place of anonymous ones |
//! | `place` | the file |
//! | `record` | what of an interpreter lies in files |
//! | `reason` | why an interpreter is not settled |
//!
//! A file that is mapped is never written again, since a forked child may have its pages too. The next time, what has become
//! anonymous goes to a further file. When the files have twice as many bytes as the interpreter, or too many mappings, all of it
//! goes to one new file. The kernel frees the old ones as their last mappings go.

mod exchange;
mod pages;
mod place;
mod reason;
mod record;
mod spans;

pub(crate) use exchange::Exchange;
pub(crate) use pages::{Pagemap, bytes};
pub(crate) use place::{extend, leave_memory, unlinked};
pub use reason::Unsettled;
pub(crate) use record::{Extent, Loan, Record, Settling, Wish};
pub(crate) use spans::Spans;

use std::time::Duration;

/// What [`Interpreter::settle`](crate::Interpreter::settle) has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settled {
    /// Bytes that were written to the file.
    pub written: u64,
    /// Bytes of `memory` that are anonymous pages still.
    pub anonymous: u64,
    /// Bytes of the memory that was to be moved, in all ([`Interpreter::settle`](crate::Interpreter::settle)).
    pub memory: u64,
    /// How long it took.
    pub elapsed: Duration,
}
