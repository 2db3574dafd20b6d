//! Large blocks of a heap: each has pages of its own, which go back to the system when it is freed.
//!
//! Where they lie is noted outside of the window, so that no overflow of a block damages it.

use hydrozoa_loader::LeafLock;
use hydrozoa_payload::limit::MemoryLimit;
use hydrozoa_payload::pages::{map, page_size};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

/// A block's pages go back to the system in less time.
const PATIENCE: Duration = Duration::from_secs(1);

/// The end of a window, which has the large blocks.
#[derive(Debug)]
pub(super) struct Large {
    region: Range<usize>,
    limit: &'static MemoryLimit,
    places: LeafLock<Places>,
}

#[derive(Debug)]
struct Places {
    /// The lengths of the blocks by their addresses.
    taken: BTreeMap<usize, usize>,
    /// From here on a place for the next block is looked for.
    next: usize,
    /// How many threads give pages of blocks back.
    closing: usize,
    /// Blocks that were freed while all are kept still.
    left: Option<Vec<usize>>,
}

/// No block goes as long as it lives: those that are freed are left.
pub(super) struct Still<'a>(&'a Large);

impl Drop for Still<'_> {
    fn drop(&mut self) {
        let left = self.0.places.with(|places| places.left.take());
        for block in left.into_iter().flatten() {
            // SAFETY: it was freed.
            unsafe { self.0.free(ptr::with_exposed_provenance_mut(block)) };
        }
    }
}

impl Places {
    /// Finds a place for a block and notes it.
    fn take(&mut self, region: &Range<usize>, length: usize, alignment: usize) -> Option<usize> {
        let place = self
            .free_from(self.next, region.end, length, alignment)
            .or_else(|| self.free_from(region.start, region.end, length, alignment))?;
        self.taken.insert(place, length);
        self.next = place + length;
        Some(place)
    }

    /// The first free place between two addresses.
    fn free_from(&self, from: usize, end: usize, length: usize, alignment: usize) -> Option<usize> {
        let before = self.taken.range(..from).next_back();
        let mut free = before.map_or(from, |(start, length)| from.max(start + length));
        let ends = |place: usize| place.checked_add(length);
        for (&start, &taken) in self.taken.range(from..) {
            let place = free.checked_next_multiple_of(alignment)?;
            if ends(place)? <= start {
                return Some(place);
            }
            free = start + taken;
        }
        let place = free.checked_next_multiple_of(alignment)?;
        (ends(place)? <= end).then_some(place)
    }

    /// The first taken address behind a block.
    fn behind(&self, block: usize, end: usize) -> usize {
        self.taken.range(block + 1..).next().map_or(end, |(start, _)| *start)
    }
}

impl Large {
    /// # Safety
    /// The addresses are reserved for it alone, and nobody can access them.
    pub(super) const unsafe fn new(region: Range<usize>, limit: &'static MemoryLimit) -> Self {
        let next = region.start;
        let places = LeafLock::new(Places { taken: BTreeMap::new(), next, closing: 0, left: None });
        Self { region, limit, places }
    }

    pub(super) fn owns(&self, address: usize) -> bool {
        self.region.contains(&address)
    }

    /// The blocks.
    pub(super) fn ranges(&self) -> Vec<Range<usize>> {
        let of = |places: &mut Places| -> Vec<_> {
            places.taken.iter().map(|(start, length)| *start..start + length).collect()
        };
        self.places.with(of)
    }

    /// A block of zeros; `None` if there is no room, or the interpreter may not have more.
    pub(super) fn allocate(&self, size: usize, alignment: usize) -> Option<*mut c_void> {
        let length = size.max(1).checked_next_multiple_of(page_size())?;
        let alignment = alignment.max(page_size());
        if length > self.region.len() || !self.limit.take(length) {
            return None;
        }
        let place = self.places.with(|places| places.take(&self.region, length, alignment));
        let block = place.filter(|place| {
            let is_open = open(*place..place + length);
            if !is_open {
                self.places.with(|places| places.taken.remove(place));
            }
            is_open
        });
        if block.is_none() {
            self.limit.give_back(length);
        }
        block.map(ptr::with_exposed_provenance_mut)
    }

    /// The number of bytes of the block at an address, if one begins there.
    pub(super) fn length_of(&self, block: *mut c_void) -> Option<usize> {
        self.places.with(|places| places.taken.get(&block.addr()).copied())
    }

    /// Frees a block, and returns its length. `None` if there is none.
    ///
    /// # Safety
    /// Nobody uses it from now on.
    pub(super) unsafe fn free(&self, block: *mut c_void) -> Option<usize> {
        let begin = |places: &mut Places| {
            let length = places.taken.get(&block.addr()).copied()?;
            match &mut places.left {
                Some(left) => left.push(block.addr()),
                None => places.closing += 1,
            }
            Some((length, places.left.is_none()))
        };
        let (length, goes) = self.places.with(begin)?;
        if goes {
            // As long as it is noted, nobody else gets the place.
            // SAFETY: by contract.
            unsafe { close(block.addr()..block.addr() + length) };
            self.places.with(|places| {
                places.closing -= 1;
                places.taken.remove(&block.addr())
            });
            self.limit.give_back(length);
        }
        Some(length)
    }

    /// Keeps all blocks where they are; `None` if a thread has begun to free one and does not come to its end. In a forked child
    /// it may not exist.
    pub(super) fn still(&self) -> Option<Still<'_>> {
        self.places.with(|places| places.left = Some(Vec::new()));
        let still = Still(self);
        let begin = Instant::now();
        while self.places.with(|places| places.closing > 0) {
            if begin.elapsed() > PATIENCE {
                return None;
            }
            thread::yield_now();
        }
        Some(still)
    }

    /// The block with another size, perhaps at another address, without a copy. `None`, without a change, if that cannot be.
    ///
    /// # Safety
    /// It is a block in use.
    pub(super) unsafe fn resize(&self, block: *mut c_void, size: usize) -> Option<*mut c_void> {
        let (start, length) = (block.addr(), self.length_of(block)?);
        let wanted = size.max(1).checked_next_multiple_of(page_size())?;
        if wanted <= length {
            // SAFETY: by contract; the end is not used any more.
            unsafe { close(start + wanted..start + length) };
            self.places.with(|places| places.taken.insert(start, wanted));
            self.limit.give_back(length - wanted);
            return Some(block);
        }
        if wanted > self.region.len() || !self.limit.take(wanted - length) {
            return None;
        }
        let fits = |places: &mut Places| {
            let fits = start + wanted <= places.behind(start, self.region.end);
            if fits {
                places.taken.insert(start, wanted);
                places.next = places.next.max(start + wanted);
            }
            fits
        };
        let grown = if self.places.with(fits) {
            let is_open = open(start + length..start + wanted);
            if !is_open {
                self.places.with(|places| places.taken.insert(start, length));
            }
            is_open.then_some(block)
        } else {
            // SAFETY: by contract.
            unsafe { self.moved(start..start + length, wanted) }
        };
        if grown.is_none() {
            self.limit.give_back(wanted - length);
        }
        grown
    }

    /// Moves the pages of a block to a place for `wanted` bytes.
    ///
    /// # Safety
    /// It is a block in use, and becomes the new one.
    unsafe fn moved(&self, block: Range<usize>, wanted: usize) -> Option<*mut c_void> {
        let new = self.places.with(|places| places.take(&self.region, wanted, page_size()))?;
        let [from, to]: [*mut c_void; 2] = [block.start, new].map(ptr::with_exposed_provenance_mut);
        // The old addresses stay mapped, so nobody else gets them meanwhile. Linux before 5.7 refuses that, and so does any if
        // files lie in the block.
        let flags = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED | libc::MREMAP_DONTUNMAP;
        // SAFETY: the new place was nobody's, and the old block is this caller's.
        let is_moved = open(new + block.len()..new + wanted)
            && unsafe { libc::mremap(from, block.len(), block.len(), flags, to) } == to;
        let (gone, result) = if is_moved { (block, Some(to)) } else { (new..new + wanted, None) };
        // SAFETY: nobody uses these addresses.
        unsafe { close(gone.clone()) };
        self.places.with(|places| places.taken.remove(&gone.start));
        result
    }

    /// Gives all blocks back.
    ///
    /// # Safety
    /// Nobody uses them.
    pub(super) unsafe fn clear(&self) {
        for block in self.ranges() {
            // SAFETY: by contract.
            unsafe { self.free(ptr::with_exposed_provenance_mut(block.start)) };
        }
        self.places.with(|places| places.next = self.region.start);
    }
}

/// Makes pages accessible. False if memory is short.
fn open(range: Range<usize>) -> bool {
    let place = ptr::with_exposed_provenance_mut(range.start);
    // SAFETY: reserved pages, which the caller has noted for itself.
    range.is_empty()
        || unsafe { libc::mprotect(place, range.len(), libc::PROT_READ | libc::PROT_WRITE) } == 0
}

/// Gives pages back to the system, and reserves their addresses. If the process has as many mappings as it may have, the pages
/// stay accessible, and are zeros.
///
/// # Safety
/// Nobody uses what is in them.
unsafe fn close(range: Range<usize>) {
    let place = ptr::with_exposed_provenance_mut(range.start);
    if range.is_empty() {
        return;
    }
    // SAFETY: by contract.
    unsafe {
        if map(place, range.len(), libc::PROT_NONE, libc::MAP_FIXED).is_none() {
            libc::madvise(place, range.len(), libc::MADV_DONTNEED);
        }
    }
}
