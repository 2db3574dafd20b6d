//! A slice of a heap's window: the addresses of one arena, whose first bytes are in use.

use super::within::Within;
use dlmalloc::Allocator;
use hydrozoa_payload::limit::MemoryLimit;
use hydrozoa_payload::pages::{map, page_size, populate};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A slice becomes accessible in steps of so many bytes.
const STEP: usize = 256 << 10;

/// A slice of a window.
#[derive(Debug)]
pub(super) struct Slice {
    start: usize,
    length: usize,
    used: AtomicUsize,
    /// The most that was in use.
    most: AtomicUsize,
    /// Whether its allocator may give memory back just now.
    shrinks: AtomicBool,
    limit: &'static MemoryLimit,
}

impl Slice {
    /// # Safety
    /// The addresses are reserved for it alone, and nobody can access them.
    pub(super) const unsafe fn new(
        start: usize,
        length: usize,
        limit: &'static MemoryLimit,
    ) -> Self {
        let [used, most] = [const { AtomicUsize::new(0) }; 2];
        Self { start, length, used, most, shrinks: AtomicBool::new(false), limit }
    }

    /// The addresses that are in use.
    pub(super) fn used(&self) -> Range<usize> {
        self.start..self.start + self.used.load(Ordering::Relaxed)
    }

    /// Gives all pages back to the system.
    ///
    /// # Safety
    /// Nobody uses what is in them, and an allocator over the slice begins anew.
    pub(super) unsafe fn clear(&self) {
        // A thread that was to give memory back may have been taken out of it.
        self.shrinks.store(false, Ordering::Relaxed);
        self.shrink(0);
        self.most.store(0, Ordering::Relaxed);
    }

    /// Has its allocator give memory back during `action`. By itself that would do so whenever 2 MiB are free at its end, and a
    /// program that takes and frees 4 MiB again and again would get new pages each time.
    pub(super) fn shrinking<T>(&self, action: impl FnOnce() -> T) -> T {
        self.shrinks.store(true, Ordering::Relaxed);
        let result = action();
        self.shrinks.store(false, Ordering::Relaxed);
        result
    }

    /// Gives back all that is used behind the first bytes.
    fn shrink(&self, keeps: usize) -> bool {
        let used = self.used.load(Ordering::Relaxed);
        if keeps == used {
            return true;
        }
        let _within = Within::process();
        let place = ptr::with_exposed_provenance_mut(self.start + keeps);
        // A new mapping: pages of a file that may lie there would come back with the file's bytes.
        // SAFETY: the pages lie in the slice, and what is in them is free.
        if unsafe { map(place, used - keeps, libc::PROT_NONE, libc::MAP_FIXED) }.is_none() {
            return false;
        }
        self.used.store(keeps, Ordering::Relaxed);
        self.limit.give_back(used - keeps);
        true
    }
}

// SAFETY: a part of the slice is given out once until it is given back, and its bytes are zero then.
unsafe impl Allocator for &'static Slice {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let none = (ptr::null_mut(), 0, 0);
        let _within = Within::process();
        let used = self.used.load(Ordering::Relaxed);
        let Some(size) = size.checked_next_multiple_of(STEP) else { return none };
        if size > self.length - used || !self.limit.take(size) {
            return none;
        }
        let part: *mut u8 = ptr::with_exposed_provenance_mut(self.start + used);
        // SAFETY: the pages lie in the slice, and nobody uses them.
        if unsafe { libc::mprotect(part.cast(), size, libc::PROT_READ | libc::PROT_WRITE) } != 0 {
            self.limit.give_back(size);
            return none;
        }
        self.used.store(used + size, Ordering::Relaxed);
        populate(self.start, used..used + size, STEP, &self.most);
        (part, size, 0)
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        ptr::null_mut()
    }

    /// Gives the end of the used part back.
    fn free_part(&self, start: *mut u8, old_size: usize, new_size: usize) -> bool {
        let first = start.addr() - self.start;
        let keeps = first + new_size;
        self.shrinks.load(Ordering::Relaxed)
            && first + old_size == self.used.load(Ordering::Relaxed)
            && keeps.is_multiple_of(page_size())
            && self.shrink(keeps)
    }

    fn free(&self, _: *mut u8, _: usize) -> bool {
        // All that is used is one segment, of which a part may be given back.
        false
    }

    fn can_release_part(&self, _: u32) -> bool {
        true
    }

    fn allocates_zeros(&self) -> bool {
        true
    }

    fn page_size(&self) -> usize {
        page_size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dlmalloc::Dlmalloc;
    use hydrozoa_payload::pages::reserved;

    /// Whether the page at an address is in memory.
    fn is_resident(address: usize) -> bool {
        let mut resident = 0;
        let page = ptr::with_exposed_provenance_mut(address);
        // SAFETY: there is room for one page's answer.
        (unsafe { libc::mincore(page, page_size(), &mut resident) }) == 0 && resident & 1 != 0
    }

    fn slice() -> &'static Slice {
        let (start, length) = reserved(1 << 30).unwrap();
        let limit: &'static MemoryLimit = Box::leak(Box::default());
        // SAFETY: they were reserved for it.
        Box::leak(Box::new(unsafe { Slice::new(start, length, limit) }))
    }

    #[test]
    fn a_heap_that_is_large_already_gets_the_pages_of_its_next_step_at_once() {
        let slice = slice();
        let mut heap = Dlmalloc::new_with_allocator(slice);
        // dlmalloc writes at both ends of a step, and has given out nothing of its middle yet.
        let middle = || slice.used().end - (128 << 10);
        // The step after 8 MiB is the first that is a thirty-second of what the heap has.
        for (length, is_touched) in [(1 << 20, false), (9 << 20, true)] {
            while slice.used().len() < length {
                // SAFETY: no precondition.
                assert!(!unsafe { heap.c_malloc(1000) }.is_null());
            }
            assert_eq!(is_resident(middle()), is_touched, "{length}");
        }
        // Memory that was given back and taken again is touched by its user only.
        let end = slice.used().end;
        let place = ptr::with_exposed_provenance_mut(end - STEP);
        assert!(!slice.free_part(place, STEP, 0));
        assert!(slice.shrinking(|| slice.free_part(place, STEP, 0)));
        let (step, length, _) = slice.alloc(1);
        assert_eq!((step.addr(), length), (end - STEP, STEP));
        assert!(!is_resident(middle()));
    }

    #[test]
    fn a_slice_that_is_cleared_has_zeros_and_one_without_room_gives_nothing() {
        let slice = slice();
        let (first, _, _) = slice.alloc(1);
        // SAFETY: a step was given out.
        unsafe { *first = 7 };
        // SAFETY: nobody uses it any more.
        unsafe { slice.clear() };
        assert!(slice.used().is_empty());
        // SAFETY: the same step, given out again.
        assert_eq!((slice.alloc(1).0, unsafe { *first }), (first, 0));
        assert!(slice.alloc(slice.length).0.is_null() && slice.alloc(usize::MAX).0.is_null());
        slice.limit.set(STEP).unwrap();
        assert!(slice.alloc(1).0.is_null());
    }
}
