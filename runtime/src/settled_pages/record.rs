//! The parts of an interpreter that lie in files, and when they are written again.

use super::exchange::comes_back_at_once;
use super::pages::{bytes, joined, united, within};
use crate::{Error, Result};
use hydrozoa_loader::LeafLock;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most runs of pages that one call exchanges, about. Each is up to two mappings more. A process may have 65,530
/// (`vm.max_map_count`).
const RUNS: usize = 48;

/// The most runs until everything is written to one file again.
const RUNS_IN_ALL: usize = 160;

/// The settings of an interpreter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    pub(crate) directory: Option<PathBuf>,
    /// After how many sessions it is settled automatically; 0: never.
    pub(crate) after: usize,
}

/// An interpreter's share in this module.
#[derive(Debug)]
pub(crate) struct Settling {
    directory: Option<PathBuf>,
    /// The sessions until it is settled, or [`NEVER`].
    remaining: AtomicUsize,
    loans: Arc<AtomicUsize>,
    shared: Arc<LeafLock<Vec<Range<usize>>>>,
    record: Mutex<Record>,
}

impl Wish {
    /// Refuses a wish to settle nowhere.
    pub(crate) fn check(&self) -> Result<()> {
        if self.after > 0 && self.directory.is_none() { Err(no_directory()) } else { Ok(()) }
    }
}

fn no_directory() -> Error {
    Error::Configuration(
        "the pool has no directory to settle its interpreters in: name one on a disk by Builder::settle_in"
            .to_owned(),
    )
}

const NEVER: usize = usize::MAX;

/// The application can write memory of Python's until this is dropped.
#[derive(Debug)]
pub(crate) struct Loan(Arc<AtomicUsize>);

impl Drop for Loan {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

/// Other interpreters can write a range of an interpreter's memory until this is dropped.
#[derive(Debug)]
pub(crate) struct Shared {
    range: Range<usize>,
    all: Arc<LeafLock<Vec<Range<usize>>>>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.all.with(|all| {
            let place = all.iter().position(|other| *other == self.range);
            place.map(|place| all.swap_remove(place))
        });
    }
}

impl Settling {
    pub(crate) fn new(wish: &Wish) -> Self {
        let remaining = if wish.after == 0 { NEVER } else { wish.after };
        Self {
            directory: wish.directory.clone(),
            remaining: AtomicUsize::new(remaining),
            loans: Arc::default(),
            shared: Arc::default(),
            record: Mutex::default(),
        }
    }

    pub(crate) fn directory(&self) -> Result<&Path> {
        self.directory.as_deref().ok_or_else(no_directory)
    }

    /// Counts a session that has ended. True if it is time to settle the interpreter, which has `open` sessions now. It is
    /// true once.
    pub(crate) fn is_due(&self, open: usize) -> bool {
        if self.remaining.load(Ordering::Relaxed) == NEVER {
            return false;
        }
        let less = |remaining| match remaining {
            NEVER => None,
            0 | 1 if open == 0 => Some(NEVER),
            left => Some(left.max(2) - 1),
        };
        let before = self.remaining.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        open == 0 && matches!(before, Ok(0 | 1))
    }

    /// The next session that ends is the time.
    pub(crate) fn try_again(&self) {
        self.remaining.store(1, Ordering::Relaxed);
    }

    pub(crate) fn is_done(&self) {
        self.remaining.store(NEVER, Ordering::Relaxed);
    }

    /// Notes that the application can write memory of Python's.
    pub(crate) fn lend(&self) -> Loan {
        self.loans.fetch_add(1, Ordering::Relaxed);
        Loan(self.loans.clone())
    }

    pub(crate) fn loans(&self) -> usize {
        self.loans.load(Ordering::Acquire)
    }

    /// Notes that other interpreters can write a range of the interpreter's memory: it stays where it is.
    pub(crate) fn share(&self, range: Range<usize>) -> Shared {
        self.shared.with(|all| all.push(range.clone()));
        Shared { range, all: self.shared.clone() }
    }

    /// The ranges that other interpreters can write.
    pub(crate) fn shared(&self) -> Vec<Range<usize>> {
        self.shared.with(|all| all.clone())
    }

    /// Has what lies in files read again: the interpreter is about to use nearly all of it.
    pub(crate) fn recall(&self) {
        self.record().mapped.iter().for_each(comes_back_at_once);
    }

    /// The right to settle the interpreter.
    pub(crate) fn record(&self) -> MutexGuard<'_, Record> {
        // After a panic some runs may be counted that were not exchanged.
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The memory that lies in files.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// The addresses, sorted. Some may have become anonymous again.
    mapped: Vec<Range<usize>>,
    /// Bytes of the files that may be mapped still.
    files: u64,
    /// How many runs of pages were exchanged since everything was.
    runs: usize,
}

/// How much is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Pages that have become anonymous.
    Some,
    All,
}

impl Record {
    fn is_new(&self) -> bool {
        self.mapped.is_empty()
    }

    /// How much is to be written of an interpreter with memory at `spans` and anonymous pages in `anonymous`.
    pub(crate) fn extent(&self, spans: &[Range<usize>], anonymous: &[Range<usize>]) -> Extent {
        let (all, new) = (bytes(spans) as u64, bytes(anonymous) as u64);
        let is_much = self.files + new > 2 * all || self.runs + RUNS > RUNS_IN_ALL || new > all / 3;
        if self.is_new() || is_much { Extent::All } else { Extent::Some }
    }

    /// The runs of pages to be exchanged.
    pub(crate) fn runs(
        &self,
        extent: Extent,
        spans: &[Range<usize>],
        anonymous: &[Range<usize>],
    ) -> Vec<Range<usize>> {
        // Spans with different rights may be neighbours.
        let runs = match extent {
            Extent::Some => within(anonymous, spans),
            Extent::All => within(&united(&self.mapped, anonymous), spans),
        };
        joined(&runs, spans, RUNS)
    }

    /// Notes that a file of so many bytes is going to be mapped.
    pub(crate) fn begin(&mut self, bytes: u64) {
        self.files += bytes;
    }

    /// Notes that a run is exchanged.
    pub(crate) fn add(&mut self, run: Range<usize>) {
        self.runs += 1;
        self.mapped = united(&self.mapped, &[run]);
    }

    /// Notes that all these runs have been exchanged, for pages of a file of so many bytes.
    pub(crate) fn finish(&mut self, extent: Extent, runs: usize, bytes: u64) {
        if extent == Extent::All {
            // Nothing of older files is mapped, but for memory that was left out.
            (self.files, self.runs) = (bytes, runs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Extent, Record};

    #[test]
    fn spans_that_are_neighbours_are_exchanged_by_themselves() {
        let mut record = Record::default();
        // A part that is read-only ends at page 3.
        let spans = [0x1000..0x3000, 0x3000..0x6000];
        let parts = [0x2000..0x3000, 0x3000..0x4000];
        let across = std::slice::from_ref(&(0x2000..0x4000));
        let runs = record.runs(Extent::All, &spans, across);
        assert_eq!(runs, parts);
        runs.into_iter().for_each(|run| record.add(run));
        assert_eq!(record.runs(Extent::All, &spans, &[]), parts);
        assert_eq!(record.runs(Extent::Some, &spans, across), parts);
    }
}
