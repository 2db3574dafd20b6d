//! The parts of an interpreter that lie in files, and when they are written again.

use super::exchange::comes_back_at_once;
use super::pages::{bytes, joined, united, within};
use crate::{Error, Result};
use hydrozoa_loader::LeafLock;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The most runs of pages that one call exchanges, about. Each is up to two mappings more. A process may have 65,530
/// (`vm.max_map_count`).
const RUNS: usize = 48;

/// The most runs until everything is written to one file again.
const RUNS_IN_ALL: usize = 160;

/// A further file is worth it if so many bytes have become anonymous since an interpreter was settled, and this part of its memory.
const LEAST: u64 = 1 << 20;
const PART: u64 = 8;

/// The settings of an interpreter.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wish {
    pub(crate) directory: Option<PathBuf>,
    /// Whether it is settled while nobody uses it.
    pub(crate) is_dense: bool,
}

/// An interpreter's share in this module.
#[derive(Debug)]
pub(crate) struct Settling {
    wish: Wish,
    loans: Arc<AtomicUsize>,
    shared: Arc<LeafLock<Vec<Range<usize>>>>,
    record: Mutex<Record>,
    so_far: LeafLock<Settlings>,
    working_set: WorkingSet,
}

/// The pages that an interpreter has used between two times that it was settled.
///
/// It will use them again, and would wait for each one alone. So the first thread that enters has all of them read at once.
#[derive(Debug, Default)]
struct WorkingSet {
    pages: LeafLock<Vec<Range<usize>>>,
    /// Whether they have left memory, and nobody has entered since.
    has_left: AtomicBool,
}

/// How an interpreter was settled so far ([`Interpreter::settlings`](crate::Interpreter::settlings)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settlings {
    /// How often.
    pub times: u64,
    /// The bytes that were written to files, all times together.
    pub written: u64,
    /// Why the last attempt failed, if it did.
    pub refused: Option<String>,
}

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
    pub(crate) fn new(wish: Wish) -> Self {
        Self {
            wish,
            loans: Arc::default(),
            shared: Arc::default(),
            record: Mutex::default(),
            so_far: LeafLock::default(),
            working_set: WorkingSet::default(),
        }
    }

    /// Where the pool settles its interpreters.
    pub(crate) fn directory(&self) -> Result<&Path> {
        self.wish.directory.as_deref().ok_or_else(|| {
            Error::Configuration(
                "the pool has no directory to settle its interpreters in: name one on a disk by Builder::settle_in"
                    .to_owned(),
            )
        })
    }

    /// Whether the interpreter is settled while nobody uses it.
    pub(crate) fn is_dense(&self) -> bool {
        self.wish.is_dense
    }

    /// Counts a time, with the bytes that were written.
    pub(crate) fn count(&self, written: u64) {
        self.note(|so_far| {
            so_far.times += 1;
            so_far.written += written;
            so_far.refused.take()
        });
    }

    /// Notes why an attempt has failed.
    pub(crate) fn note_refusal(&self, reason: String) {
        self.note(|so_far| so_far.refused.replace(reason));
    }

    /// A former reason is dropped outside of the lock.
    fn note(&self, change: impl FnOnce(&mut Settlings) -> Option<String>) {
        drop(self.so_far.with(change));
    }

    pub(crate) fn so_far(&self) -> Settlings {
        self.so_far.with(|so_far| so_far.clone())
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

    /// Notes that the pages have left memory that were used before, where that is known.
    pub(crate) fn leave(&self, used: Vec<Range<usize>>) {
        if used.is_empty() {
            return;
        }
        drop(self.working_set.pages.with(|pages| std::mem::replace(pages, used)));
        self.working_set.has_left.store(true, Ordering::Release);
    }

    /// Has them read again, in the background, if they have left: a thread is about to enter.
    #[inline]
    pub(crate) fn prefetch(&self) {
        if self.working_set.has_left.load(Ordering::Relaxed) {
            self.read_working_set();
        }
    }

    #[cold]
    fn read_working_set(&self) {
        if self.working_set.has_left.swap(false, Ordering::Acquire) {
            let pages = self.working_set.pages.with(std::mem::take);
            pages.iter().for_each(comes_back_at_once);
        }
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
    /// Whether the interpreter was never settled.
    pub(crate) fn is_new(&self) -> bool {
        self.mapped.is_empty()
    }

    /// Whether it is worth a file to settle an interpreter with memory at `spans` and anonymous pages in `anonymous`.
    pub(crate) fn is_worth_it(&self, spans: &[Range<usize>], anonymous: &[Range<usize>]) -> bool {
        let (all, new) = (bytes(spans) as u64, bytes(anonymous) as u64);
        self.is_new() || new >= LEAST.max(all / PART)
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
