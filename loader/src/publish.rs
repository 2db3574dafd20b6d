//! The index of all published replicas by address: what unwinders, `dladdr`, `dl_iterate_phdr` and
//! debuggers are answered from.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use once_cell::sync::OnceCell;
use parking_lot::RwLock;

use crate::debugger;
use crate::error::{Error, Result};
use crate::fork;
use crate::replica::Replica;
use crate::sys::memory::{Protection, Reservation};

/// Room for this many replicas in one process. Every replica has several mappings, of which the
/// kernel's default limit allows 65,530.
const CAPACITY: usize = 32 * 1024;

/// What an unwinder needs to know of a replica, without locks and without following pointers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub start: usize,
    pub end: usize,
    /// Address of `.eh_frame_hdr`; 0 if the image has none.
    pub unwind_header: usize,
    /// Address of its `link_map`.
    pub link_map: usize,
}

/// An array of ranges, highest address first, that is read without locks, guarded by a sequence counter: a reader
/// that saw the counter odd or changed reads again.
///
/// The kernel hands out addresses from the top down, so that a new replica's place is at the end
/// nearly always: publishing costs the same however many there are.
///
/// An unwinder runs at any place, also while this thread holds the writer's lock, which is never
/// held over code that can throw.
struct Ranges {
    sequence: AtomicU64,
    count: AtomicUsize,
    memory: Reservation,
}

const WORDS: usize = 4;

impl Ranges {
    fn new() -> Result<Ranges> {
        let length = CAPACITY * WORDS * size_of::<AtomicUsize>();
        let memory = Reservation::new(length, 1).and_then(|memory| {
            memory.map_zeroes(0, memory.length(), Protection::ReadWrite).map(|()| memory)
        });
        let memory = memory.map_err(|source| Error::Memory {
            object: "the index of replicas".into(),
            action: "reserve",
            length,
            source,
        })?;
        Ok(Ranges { sequence: AtomicU64::new(0), count: AtomicUsize::new(0), memory })
    }

    fn word(&self, index: usize, word: usize) -> &AtomicUsize {
        assert!(index < CAPACITY && word < WORDS);
        // SAFETY: the array holds CAPACITY * WORDS zeroed words, mapped as long as `self` lives,
        // and is accessed through atomics only.
        unsafe { &*(self.memory.base() as *const AtomicUsize).add(index * WORDS + word) }
    }

    fn load(&self, index: usize) -> Range {
        let word = |word| self.word(index, word).load(Ordering::Relaxed);
        Range { start: word(0), end: word(1), unwind_header: word(2), link_map: word(3) }
    }

    fn store(&self, index: usize, range: Range) {
        let Range { start, end, unwind_header, link_map } = range;
        for (word, value) in [start, end, unwind_header, link_map].into_iter().enumerate() {
            self.word(index, word).store(value, Ordering::Relaxed);
        }
    }

    /// The range that holds `address`.
    fn find(&self, address: usize) -> Option<Range> {
        loop {
            let before = self.sequence.load(Ordering::Acquire);
            if before.is_multiple_of(2) {
                let found = self.search(address);
                fence(Ordering::Acquire);
                if self.sequence.load(Ordering::Relaxed) == before {
                    return found;
                }
            }
            std::hint::spin_loop();
        }
    }

    fn search(&self, address: usize) -> Option<Range> {
        let index = self.count_above(address);
        if index >= self.count.load(Ordering::Relaxed).min(CAPACITY) {
            return None;
        }
        let candidate = self.load(index);
        (address < candidate.end).then_some(candidate)
    }

    /// How many ranges begin above `address`.
    fn count_above(&self, address: usize) -> usize {
        let (mut low, mut high) = (0, self.count.load(Ordering::Relaxed).min(CAPACITY));
        while low < high {
            let middle = (low + high) / 2;
            if self.word(middle, 0).load(Ordering::Relaxed) > address {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Replaces the content. One writer at a time (the caller holds the directory's lock).
    fn replace_from(&self, first: usize, ranges: &[Range]) {
        self.sequence.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::Release);
        for (index, &range) in ranges.iter().enumerate() {
            self.store(first + index, range);
        }
        self.count.store(first + ranges.len(), Ordering::Relaxed);
        self.sequence.fetch_add(1, Ordering::Release);
    }
}

static RANGES: OnceCell<Ranges> = OnceCell::new();

/// The replicas themselves, for questions that are not asked while unwinding.
#[derive(Default)]
struct Directory {
    by_start: BTreeMap<usize, Arc<Replica>>,
    /// As they were loaded, which is how glibc's `dl_iterate_phdr` lists them.
    in_order: Vec<Arc<Replica>>,
    added: u64,
    removed: u64,
}

static DIRECTORY: RwLock<Directory> = RwLock::new(Directory {
    by_start: BTreeMap::new(),
    in_order: Vec::new(),
    added: 0,
    removed: 0,
});

/// The lock of all that is written here.
pub(crate) fn lock() -> &'static dyn fork::Held {
    &DIRECTORY
}

/// Allocates the index, so that the first exception does not have to.
pub(crate) fn prepare() -> Result<()> {
    RANGES.get_or_try_init(Ranges::new).map(drop)
}

/// Makes replicas visible, all at once. Fails, changing nothing, if the index is full.
pub(crate) fn publish(replicas: &[Arc<Replica>]) -> Result<()> {
    let mut directory = DIRECTORY.write();
    if directory.by_start.len() + replicas.len() > CAPACITY {
        return Err(Error::Unsupported(format!(
            "the process holds {CAPACITY} replicas, as many as the index has room for"
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

/// Takes replicas back; their memory may be unmapped afterwards.
pub(crate) fn withdraw(replicas: &[Arc<Replica>]) {
    let mut directory = DIRECTORY.write();
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
    /// Brings the ranges in step, from the highest changed address down.
    fn rewrite(&self, highest: Option<usize>) {
        let Some(highest) = highest else { return };
        let index = RANGES.get().expect("it was prepared with the first loader");
        let ranges: Vec<Range> =
            self.by_start.range(..=highest).rev().map(|(_, replica)| replica.range()).collect();
        index.replace_from(index.count_above(highest), &ranges);
    }
}

/// The range that holds `address`. Takes no lock and allocates nothing.
pub(crate) fn find_range(address: usize) -> Option<Range> {
    RANGES.get()?.find(address)
}

/// The replica whose address range holds `address`.
pub(crate) fn find(address: usize) -> Option<Arc<Replica>> {
    let directory = DIRECTORY.read();
    let (_, replica) = directory.by_start.range(..=address).next_back()?;
    (address < replica.range().end).then(|| replica.clone())
}

/// All published replicas in the order in which they were loaded, and how many were ever added and removed.
pub(crate) fn snapshot() -> (Vec<Arc<Replica>>, u64, u64) {
    let directory = DIRECTORY.read();
    (directory.in_order.clone(), directory.added, directory.removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: usize) -> Range {
        Range { start, end: start + 0x10, unwind_header: start + 1, link_map: start + 2 }
    }

    #[test]
    fn an_address_is_found_in_its_range_only() {
        let ranges = Ranges::new().unwrap();
        ranges.replace_from(0, &[range(0x300), range(0x200), range(0x100)]);
        assert_eq!(ranges.find(0x20f), Some(range(0x200)));
        assert_eq!(ranges.find(0x210), None);
        assert_eq!(ranges.find(0xff), None);
        assert_eq!((ranges.count_above(0x200), ranges.count_above(0x1ff)), (1, 2));
        ranges.replace_from(1, &[range(0x80)]);
        assert_eq!((ranges.find(0x200), ranges.find(0x80)), (None, Some(range(0x80))));
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
                ranges.replace_from(0, &set[round % 3..]);
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
