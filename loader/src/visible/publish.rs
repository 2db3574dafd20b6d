//! The index of all published replicas by address. It answers unwinders, `dladdr`, `dl_iterate_phdr` and
//! debuggers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use crate::error::{Error, Result};
use crate::id::DomainId;
use crate::replica::Replica;
use crate::replica::link_map::Range;
use crate::sys::lock::{Mutex, Once, Rank};
use crate::sys::memory::{Protection, Reservation};
use crate::visible::debugger;

/// Room for this many replicas in one process. Every replica has several mappings, and the kernel's
/// default limit is 65,530 mappings.
const CAPACITY: usize = 32 * 1024;

/// All ranges, in two copies. One copy is always whole.
///
/// An unwinder runs at any place: in a signal handler too that has interrupted a write, on the thread
/// that writes. So nobody waits for a writer. It changes the copy that readers do not use, and then makes
/// that the current one by one store, as glibc does for `_dl_find_object` (elf/dl-find_object.c). A reader
/// reads again only if a whole write has ended since it began.
struct Ranges {
    /// How many writes have ended; the lowest bit is the number of the current copy.
    version: AtomicU64,
    /// The number of ranges in each copy.
    counts: [AtomicUsize; 2],
    /// From this address down the copies differ. Only writers use it.
    differs: AtomicUsize,
    memory: Reservation,
}

const WORDS: usize = 5;

impl Ranges {
    fn new() -> Result<Ranges> {
        let length = 2 * CAPACITY * WORDS * size_of::<AtomicUsize>();
        let memory = Reservation::new(length, 1).and_then(|memory| {
            memory.map_zeroes(0, memory.length(), Protection::ReadWrite).map(|()| memory)
        });
        let memory = memory.map_err(|source| Error::Memory {
            object: "the index of replicas".into(),
            action: "reserve",
            length,
            source,
        })?;
        Ok(Ranges {
            version: AtomicU64::new(0),
            counts: [const { AtomicUsize::new(0) }; 2],
            differs: AtomicUsize::new(0),
            memory,
        })
    }

    /// The range that holds `address`.
    fn find(&self, address: usize) -> Option<Range> {
        loop {
            let version = self.version.load(Ordering::Acquire);
            let found = self.copy(version).search(address);
            fence(Ordering::Acquire);
            // A reader that has seen a word of the next write also sees the version before it.
            if self.version.load(Ordering::Relaxed) == version {
                return found;
            }
        }
    }

    /// Replaces all ranges that begin at `highest` or below it by those that `at_or_below` gives for an
    /// address, highest first. One writer at a time (the caller holds the directory's lock).
    ///
    /// The kernel hands out addresses from the top down, so a new replica nearly always goes to the end
    /// of both copies: publishing costs the same however many replicas exist.
    fn rewrite<I>(&self, highest: usize, at_or_below: impl FnOnce(usize) -> I)
    where
        I: Iterator<Item = Range>,
    {
        let version = self.version.load(Ordering::Relaxed);
        // The other copy lacks the last write.
        let first_changed = highest.max(self.differs.load(Ordering::Relaxed));
        let other = self.copy(version + 1);
        // Readers that still use it must notice that it is no longer the current one.
        fence(Ordering::Release);
        let mut count = other.count_above(first_changed);
        for range in at_or_below(first_changed) {
            other.store(count, range);
            count += 1;
        }
        other.count.store(count, Ordering::Relaxed);
        self.differs.store(highest, Ordering::Relaxed);
        self.version.store(version + 1, Ordering::Release);
    }

    fn copy(&self, version: u64) -> Table<'_> {
        let number = (version % 2) as usize;
        let start = self.memory.base() + number * CAPACITY * WORDS * size_of::<AtomicUsize>();
        // SAFETY: the memory holds two arrays of CAPACITY * WORDS zeroed words, mapped as long as `self`
        // lives, and is accessed through atomics only.
        let words =
            unsafe { std::slice::from_raw_parts(start as *const AtomicUsize, CAPACITY * WORDS) };
        Table { count: &self.counts[number], words }
    }
}

/// An array of ranges, highest address first.
struct Table<'a> {
    count: &'a AtomicUsize,
    words: &'a [AtomicUsize],
}

impl Table<'_> {
    fn load(&self, index: usize) -> Range {
        let word = |word: usize| self.words[index * WORDS + word].load(Ordering::Relaxed);
        let domain = DomainId(word(4) as u32);
        Range { start: word(0), end: word(1), unwind_header: word(2), link_map: word(3), domain }
    }

    fn store(&self, index: usize, range: Range) {
        let Range { start, end, unwind_header, link_map, domain } = range;
        let words = [start, end, unwind_header, link_map, domain.0 as usize];
        for (word, value) in words.into_iter().enumerate() {
            self.words[index * WORDS + word].store(value, Ordering::Relaxed);
        }
    }

    fn search(&self, address: usize) -> Option<Range> {
        let index = self.count_above(address);
        if index >= self.count.load(Ordering::Relaxed) {
            return None;
        }
        let candidate = self.load(index);
        (address < candidate.end).then_some(candidate)
    }

    /// How many ranges begin above `address`.
    fn count_above(&self, address: usize) -> usize {
        let (mut low, mut high) = (0, self.count.load(Ordering::Relaxed));
        while low < high {
            let middle = (low + high) / 2;
            if self.words[middle * WORDS].load(Ordering::Relaxed) > address {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

static RANGES: Once<Ranges> = Once::new();

/// The replicas themselves, for questions outside unwinding.
#[derive(Default)]
struct Directory {
    by_start: BTreeMap<usize, Arc<Replica>>,
    /// In load order, the order of glibc's `dl_iterate_phdr`.
    in_order: Vec<Arc<Replica>>,
    added: u64,
    removed: u64,
}

static DIRECTORY: Mutex<Directory> = Mutex::new(
    Rank::Directory,
    Directory { by_start: BTreeMap::new(), in_order: Vec::new(), added: 0, removed: 0 },
);

/// Allocates the index, so that the first exception does not have to.
pub(crate) fn prepare() -> Result<()> {
    RANGES.get_or_try_init(Ranges::new).map(drop)
}

/// Makes replicas visible, all at once. Fails, changing nothing, if the index is full.
pub(crate) fn publish(replicas: &[Arc<Replica>]) -> Result<()> {
    let mut directory = DIRECTORY.lock();
    if directory.by_start.len() + replicas.len() > CAPACITY {
        return Err(Error::Unsupported(format!(
            "the process holds {CAPACITY} replicas, as many as the index has room for; load fewer, or use another \
             process"
        )));
    }
    for replica in replicas {
        directory.by_start.insert(replica.base, replica.clone());
    }
    directory.in_order.extend_from_slice(replicas);
    directory.added += replicas.len() as u64;
    let highest = replicas.iter().map(|replica| replica.base).max();
    directory.rewrite(highest);
    debugger::add(replicas);
    Ok(())
}

/// Withdraws replicas. Their memory may be unmapped afterwards.
pub(crate) fn withdraw(replicas: &[Arc<Replica>]) {
    let mut directory = DIRECTORY.lock();
    for replica in replicas {
        directory.by_start.remove(&replica.base);
    }
    let Directory { by_start, in_order, .. } = &mut *directory;
    in_order.retain(|replica| by_start.contains_key(&replica.base));
    directory.removed += replicas.len() as u64;
    let highest = replicas.iter().map(|replica| replica.base).max();
    directory.rewrite(highest);
    debugger::remove(replicas);
}

impl Directory {
    /// Updates the ranges, from the highest changed address down.
    fn rewrite(&self, highest: Option<usize>) {
        let Some(highest) = highest else { return };
        let index = RANGES.get().expect("it was prepared with the first loader");
        index.rewrite(highest, |address| {
            self.by_start.range(..=address).rev().map(|(_, replica)| replica.range())
        });
    }
}

/// The range that holds `address`. It takes no lock, never waits and allocates nothing: signal handlers
/// call it through an unwinder.
pub(crate) fn find_range(address: usize) -> Option<Range> {
    RANGES.get()?.find(address)
}

/// Whether `address` lies in a replica of any domain, also in one that has been closed and stays mapped. It takes no
/// lock and never waits, so a signal handler may ask.
pub fn is_in_replica(address: usize) -> bool {
    find_range(address).is_some()
}

/// The replica whose address range holds `address`.
pub(crate) fn find(address: usize) -> Option<Arc<Replica>> {
    let directory = DIRECTORY.lock();
    let (_, replica) = directory.by_start.range(..=address).next_back()?;
    (address < replica.range().end).then(|| replica.clone())
}

/// The replica with the link map at this address.
pub(crate) fn find_by_link_map(address: usize) -> Option<Arc<Replica>> {
    let directory = DIRECTORY.lock();
    directory.in_order.iter().find(|replica| replica.range().link_map == address).cloned()
}

/// All published replicas in the order in which they were loaded, and how many were ever added and removed.
pub(crate) fn snapshot() -> (Vec<Arc<Replica>>, u64, u64) {
    let directory = DIRECTORY.lock();
    (directory.in_order.clone(), directory.added, directory.removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: usize) -> Range {
        let domain = DomainId(start as u32);
        Range { start, end: start + 0x10, unwind_header: start + 1, link_map: start + 2, domain }
    }

    /// Leaves nothing but `all`, highest first.
    fn replace(ranges: &Ranges, all: &[Range]) {
        ranges.rewrite(usize::MAX, |_| all.iter().copied());
    }

    #[test]
    fn an_address_is_found_in_its_range_only() {
        let ranges = Ranges::new().unwrap();
        replace(&ranges, &[range(0x300), range(0x200), range(0x100)]);
        assert_eq!(ranges.find(0x20f), Some(range(0x200)));
        assert_eq!(ranges.find(0x210), None);
        assert_eq!(ranges.find(0xff), None);
        let copy = ranges.copy(1);
        assert_eq!((copy.count_above(0x200), copy.count_above(0x1ff)), (1, 2));
    }

    #[test]
    fn a_write_changes_what_the_one_before_it_changed_in_the_other_copy_too() {
        let ranges = Ranges::new().unwrap();
        let mut all = std::collections::BTreeMap::new();
        let mut write = |start: usize, present: bool| {
            if present {
                all.insert(start, range(start));
            } else {
                all.remove(&start);
            }
            let mut written = 0;
            ranges.rewrite(start, |address| {
                let below = all.range(..=address).rev().map(|(_, range)| *range);
                written = below.clone().count();
                below
            });
            for start in (0x100..0x900).step_by(0x100) {
                assert_eq!(ranges.find(start), all.get(&start).copied(), "{start:#x}");
            }
            written
        };
        for start in (0x400..0x900).step_by(0x100).rev() {
            assert!(write(start, true) <= 2, "only what is new in either copy is written");
        }
        write(0x300, true);
        write(0x700, false);
        write(0x200, true);
        write(0x700, true);
        write(0x800, false);
        write(0x200, false);
    }

    #[test]
    fn a_reader_that_has_interrupted_a_write_finds_what_was_there_before_it() {
        let ranges = Ranges::new().unwrap();
        for (before, after) in [(0x100, 0x200), (0x200, 0x300), (0x300, 0x100)] {
            replace(&ranges, &[range(before)]);
            ranges.rewrite(usize::MAX, |_| {
                [range(after)].into_iter().inspect(|_| {
                    assert_eq!(ranges.find(before), Some(range(before)));
                    assert_eq!(ranges.find(after), None);
                })
            });
            assert_eq!(ranges.find(before), None);
            assert_eq!(ranges.find(after), Some(range(after)));
        }
    }

    #[test]
    fn readers_never_see_a_range_that_was_not_there() {
        let ranges = Ranges::new().unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    for address in (0x100..0x500).step_by(8) {
                        if let Some(found) = ranges.find(address) {
                            assert_eq!(found, range(found.start));
                        }
                    }
                }
            });
            for round in 0..20_000 {
                let set = [range(0x400), range(0x300), range(0x200), range(0x100)];
                replace(&ranges, &set[round % 3..]);
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
