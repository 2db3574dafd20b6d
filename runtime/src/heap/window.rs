//! The addresses of a heap.

use super::Heap;
use crate::leaf::Leaf;
use dlmalloc::Allocator;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// A window has so many bytes of address space, and begins at a multiple of that.
const LENGTH: usize = 1 << SHIFT;
const SHIFT: u32 = 34;

/// It becomes accessible in steps of so many bytes.
const STEP: usize = 256 << 10;

const PAGE: usize = 4096;

/// The heaps by the numbers of their windows. Addresses of user space have 47 bits (mmap(2) gives others to those only who ask
/// for them).
static HEAPS: [AtomicPtr<Heap>; 1 << (47 - SHIFT)] =
    [const { AtomicPtr::new(ptr::null_mut()) }; 1 << (47 - SHIFT)];

/// So many windows are reserved side by side: those that are left become one mapping.
const AT_ONCE: usize = 16;

/// The windows that are reserved and nobody's.
static STOCK: Leaf<Range<usize>> = Leaf::new(0..0);

/// Addresses for so many windows.
fn reserved(windows: usize) -> Option<Range<usize>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let length = windows * LENGTH;
    // SAFETY: a mapping at an address of the kernel's choice replaces nothing.
    let mapped =
        unsafe { libc::mmap(ptr::null_mut(), length + LENGTH, libc::PROT_NONE, flags, -1, 0) };
    if mapped == libc::MAP_FAILED {
        return None;
    }
    let mapped = mapped.expose_provenance();
    let start = mapped.next_multiple_of(LENGTH);
    for rest in [mapped..start, start + length..mapped + length + LENGTH] {
        if !rest.is_empty() {
            // SAFETY: a part of the mapping, which nobody knows.
            unsafe { libc::munmap(ptr::with_exposed_provenance_mut(rest.start), rest.len()) };
        }
    }
    Some(start..start + length)
}

/// A window of addresses. Its first bytes are in use.
#[derive(Debug)]
pub(super) struct Window {
    start: usize,
    used: AtomicUsize,
}

impl Window {
    /// A window, if the kernel grants it: there may be a limit on address space (`RLIMIT_AS`).
    pub(super) fn reserve() -> Option<&'static Self> {
        let start = STOCK.with(|stock| {
            if Range::is_empty(stock) {
                *stock = reserved(AT_ONCE).or_else(|| reserved(1))?;
            }
            stock.end -= LENGTH;
            Some(stock.end)
        })?;
        (start >> SHIFT < HEAPS.len())
            .then(|| &*Box::leak(Box::new(Self { start, used: AtomicUsize::new(0) })))
    }

    /// Notes whose the window is.
    pub(super) fn note(&self, heap: &'static Heap) {
        HEAPS[self.start >> SHIFT].store(ptr::from_ref(heap).cast_mut(), Ordering::Release);
    }

    /// The heap whose window an address lies in.
    pub(super) fn owner(address: usize) -> Option<&'static Heap> {
        let heap = HEAPS.get(address >> SHIFT)?.load(Ordering::Acquire);
        // SAFETY: null, or a heap that is never freed.
        unsafe { heap.as_ref() }
    }

    /// The addresses that are in use.
    pub(super) fn used(&self) -> Range<usize> {
        self.start..self.start + self.used.load(Ordering::Relaxed)
    }

    /// Gives all pages back to the system.
    pub(super) fn empty(&self) {
        self.shrink(0);
    }

    /// Gives all pages back to the system. All addresses can be read and written from now on, and have zeros. Windows side
    /// by side become one mapping.
    pub(super) fn leave(&self) {
        self.map_anew(libc::PROT_READ | libc::PROT_WRITE);
    }

    /// What a new window is: nothing of it is in use.
    pub(super) fn reset(&self) {
        self.map_anew(libc::PROT_NONE);
    }

    fn map_anew(&self, protection: c_int) {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        let place = ptr::with_exposed_provenance_mut(self.start);
        // SAFETY: the pages are the window's, and what is in them is free.
        let mapped = unsafe { libc::mmap(place, LENGTH, protection, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            // The kernel refuses so much (vm.overcommit_memory), and has left what was there.
            let error = std::io::Error::last_os_error();
            tracing::debug!(%error, "the memory of C++ objects of an interpreter that has ended stays");
            return;
        }
        self.used.store(0, Ordering::Relaxed);
    }

    fn shrink(&self, keeps: usize) -> bool {
        let used = self.used.load(Ordering::Relaxed);
        let place = ptr::with_exposed_provenance_mut(self.start + keeps);
        if keeps == used {
            return true;
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // A new mapping: pages of a file that may lie there would come back with the file's bytes.
        // SAFETY: the pages lie in the window, and what is in them is free.
        let mapped = unsafe { libc::mmap(place, used - keeps, libc::PROT_NONE, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return false;
        }
        self.used.store(keeps, Ordering::Relaxed);
        true
    }

    fn set(&self, part: Range<usize>, protection: c_int) -> bool {
        let place = ptr::with_exposed_provenance_mut(self.start + part.start);
        // SAFETY: the pages lie in the window, and nobody uses them: they become, or were, free.
        unsafe { libc::mprotect(place, part.len(), protection) == 0 }
    }
}

// SAFETY: a part of the window is given out once until it is given back, and its bytes are zero then.
unsafe impl Allocator for &'static Window {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let none = (ptr::null_mut(), 0, 0);
        let used = self.used.load(Ordering::Relaxed);
        let Some(size) = size.checked_next_multiple_of(STEP) else { return none };
        if size > LENGTH - used || !self.set(used..used + size, libc::PROT_READ | libc::PROT_WRITE)
        {
            return none;
        }
        self.used.store(used + size, Ordering::Relaxed);
        (ptr::with_exposed_provenance_mut(self.start + used), size, 0)
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        ptr::null_mut()
    }

    /// Gives the end of the used part back.
    fn free_part(&self, start: *mut u8, old_size: usize, new_size: usize) -> bool {
        let first = start.addr() - self.start;
        let keeps = first + new_size;
        first + old_size == self.used.load(Ordering::Relaxed)
            && keeps.is_multiple_of(PAGE)
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
        PAGE
    }
}

/// The number of bytes of a block of dlmalloc's that its user has.
///
/// # Safety
/// It is one, and in use.
pub(super) unsafe fn length_of(block: *mut c_void) -> usize {
    const FLAGS: usize = 7;
    // SAFETY: the word before a block is its length with its head, one word, and three flags (dlmalloc, "Overlaid data
    // structures"). Others change the flags only while they free the block before it.
    let head = unsafe { &*block.cast::<AtomicUsize>().sub(1) }.load(Ordering::Relaxed);
    (head & !FLAGS) - size_of::<usize>()
}
