//! Damage to an interpreter's heap, for which this crate calls abort(3). The report of the crash says it. Where there is none, since the
//! program handles the signal or no interpreter's code has called, a line on standard error does.

use super::text::Line;
use super::{handler, interpreters, report};
use std::cell::Cell;
use std::fmt::{self, Write};

/// A damaged block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Damage {
    /// The number of the domain of the interpreter whose heap it is; another number if there is none.
    pub(crate) domain: u64,
    /// Its address.
    pub(crate) block: usize,
    /// The rest of the sentence that begins with the block.
    pub(crate) words: &'static str,
}

thread_local! {
    /// Why the thread calls abort(3).
    static REASON: Cell<Option<Damage>> = const { Cell::new(None) };
}

/// Ends the process, or the interpreter, by abort(3).
pub(crate) fn abort(damage: Damage) -> ! {
    REASON.set(Some(damage));
    if !handler::handles(libc::SIGABRT) {
        print();
    }
    // Not `std::process::abort`, which some targets make an illegal instruction of.
    // SAFETY: no precondition.
    unsafe { libc::abort() }
}

/// Why the calling thread has called abort(3), if it is for damage. It is told once.
pub(super) fn take() -> Option<Damage> {
    REASON.take()
}

/// Writes the line, unless the damage was told.
pub(super) fn print() {
    if let Some(damage) = take() {
        let mut line = Line::empty();
        let _ = writeln!(line, "hydrozoa: {damage}");
        report::print(line.bytes());
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut name = [0; 64];
        match interpreters::numbered(self.domain) {
            Some(one) => {
                let (name, index) = (one.name(&mut name), one.index());
                write!(formatter, "the heap of {name} (index {index})")?;
            }
            None => formatter.write_str("the heap of an interpreter that starts or ends")?,
        }
        write!(formatter, " is damaged: the block at {:#x} {}", self.block, self.words)
    }
}
