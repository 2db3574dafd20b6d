//! The addresses of a heap.

use super::Heap;
use dlmalloc::Allocator;
use hydrozoa_loader::Leaf;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// A window has so many bytes of address space, and begins at a multiple of that.
const LENGTH: usize = 1 << SHIFT;
const SHIFT: u32 = 34;

/// It becomes accessible in steps of so many bytes.
pub(super) const STEP: usize = 256 << 10;

/// A heap of so many steps gets the pages of the next one at once, not each with its first write: that is cheaper, and a heap which grows no
/// more has a few hundredths too much. Several steps at once are for one large block, and nobody knows how much of it will be written. A step that was given back is
/// not touched again: a program may take and give back one again and again.
const MANY: usize = 32;

const PAGE: usize = 4096;

/// The heaps by the numbers of their windows. Addresses of user space have 47 bits (mmap(2) gives others to those only who ask
/// for them).
static HEAPS: [AtomicPtr<Heap>; 1 << (47 - SHIFT)] =
    [const { AtomicPtr::new(ptr::null_mut()) }; 1 << (47 - SHIFT)];

/// So many windows are reserved at once.
const AT_ONCE: usize = 16;

/// How far below the mappings of the process the windows begin. What lies between is nobody's: the kernel puts mappings one
/// below the other, from the top, and programs and their heap tens of TiB below (x86-64, Documentation/arch/x86/x86_64/mm.rst).
const BELOW: usize = 24 << 40;

/// The windows that are reserved and nobody's, and where further ones shall begin.
static STOCK: Leaf<Stock> = Leaf::new(Stock { windows: 0..0, next: None });

/// Reserved windows are side by side, as far as the kernel has it so: those that are left become one mapping.
struct Stock {
    windows: Range<usize>,
    next: Option<usize>,
}

impl Stock {
    /// Takes the first window, and reserves some if there is none.
    fn take(&mut self) -> Option<usize> {
        if self.windows.is_empty() {
            self.windows = self.reserve(AT_ONCE).or_else(|| self.reserve(1))?;
        }
        let start = self.windows.start;
        self.windows.start += LENGTH;
        Some(start)
    }

    /// Addresses for so many windows.
    fn reserve(&mut self, windows: usize) -> Option<Range<usize>> {
        let length = windows * LENGTH;
        let next = match self.next {
            Some(next) => next,
            None => anywhere()?.checked_sub(BELOW)?.next_multiple_of(LENGTH),
        };
        let reserved = side_by_side(next, length).or_else(|| elsewhere(length))?;
        self.next = Some(reserved.end);
        Some(reserved)
    }
}

/// Maps addresses that nobody can use yet.
fn map(wanted: usize, length: usize, further: c_int) -> Option<usize> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | further;
    let wanted = ptr::with_exposed_provenance_mut(wanted);
    // SAFETY: a mapping at an address of the kernel's choice, or at a free one, replaces nothing.
    let mapped = unsafe { libc::mmap(wanted, length, libc::PROT_NONE, flags, -1, 0) };
    (mapped != libc::MAP_FAILED).then(|| mapped.expose_provenance())
}

/// Gives a part of a mapping back, which nobody knows.
fn unmap(part: Range<usize>) {
    if !part.is_empty() {
        // SAFETY: whoever calls has mapped it, and nobody else knows its addresses.
        unsafe { libc::munmap(ptr::with_exposed_provenance_mut(part.start), part.len()) };
    }
}

/// Where the kernel would put a mapping.
fn anywhere() -> Option<usize> {
    let mapped = map(0, PAGE, 0)?;
    unmap(mapped..mapped + PAGE);
    Some(mapped)
}

/// Addresses from `start` on, if they are free.
fn side_by_side(start: usize, length: usize) -> Option<Range<usize>> {
    let mapped = map(start, length, libc::MAP_FIXED_NOREPLACE)?;
    // A kernel before 4.17 does not know the flag, and takes the address for a wish (mmap(2)).
    if mapped != start {
        unmap(mapped..mapped + length);
        return None;
    }
    Some(start..start + length)
}

/// Addresses of the kernel's choice.
fn elsewhere(length: usize) -> Option<Range<usize>> {
    let mapped = map(0, length + LENGTH, 0)?;
    let start = mapped.next_multiple_of(LENGTH);
    unmap(mapped..start);
    unmap(start + length..mapped + length + LENGTH);
    Some(start..start + length)
}

/// A window of addresses. Its first bytes are in use.
#[derive(Debug)]
pub(super) struct Window {
    start: usize,
    used: AtomicUsize,
    /// The most that was in use by this interpreter.
    most: AtomicUsize,
}

impl Window {
    /// A window, if the kernel grants it: there may be a limit on address space (`RLIMIT_AS`).
    pub(super) fn reserve() -> Option<&'static Self> {
        let start = STOCK.with(Stock::take)?;
        (start >> SHIFT < HEAPS.len()).then(|| &*Box::leak(Box::new(Self::at(start))))
    }

    fn at(start: usize) -> Self {
        Self { start, used: AtomicUsize::new(0), most: AtomicUsize::new(0) }
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
        self.most.store(0, Ordering::Relaxed);
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
        let step: *mut u8 = ptr::with_exposed_provenance_mut(self.start + used);
        let is_new = used >= self.most.fetch_max(used + size, Ordering::Relaxed);
        if size == STEP && is_new && used >= MANY * STEP {
            // SAFETY: the step is accessible and empty. The advice does what writes to its pages would do. Linux before 5.14 refuses it.
            unsafe { libc::madvise(step.cast(), size, libc::MADV_POPULATE_WRITE) };
        }
        (step, size, 0)
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
