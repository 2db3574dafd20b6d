//! The heap of an interpreter: what Python's raw allocator takes.
//!
//! CPython's raw allocator is malloc (Doc/c-api/memory.rst), whose heap is the process's. CPython leaves some of it behind
//! when it is finalized. So an interpreter has a heap of its own: Doug Lea's malloc, from which glibc's descends, in one
//! window of addresses. The loader notes the window for the interpreter, and at the interpreter's end it goes back to the
//! system as a whole. As long as Python runs, memory at the end of the window goes back as it becomes free.
//!
//! What extension modules take from malloc by themselves is not here. CPython asks malloc itself for a few things that
//! begin before its allocators are set or outlive them (`_PyMem_SetDefaultAllocator` in Objects/obmalloc.c), and frees
//! them there. A block is recognised by its address. So code that gets a block from malloc and frees it by Python's raw
//! allocator works, as in plain python.

use crate::arenas;
use crate::ceiling;
use crate::table::{Purpose, Region};
use dlmalloc::{Allocator, Dlmalloc};
use pyo3_ffi::{PyMem_SetAllocator, PyMemAllocatorDomain, PyMemAllocatorEx};
use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Bytes of address space for the window: the first that the kernel grants, under a limit on address space
/// (`RLIMIT_AS`) or on overcommitment.
const WINDOWS: [usize; 4] = [64 << 30, 8 << 30, 1 << 30, 128 << 20];

/// The window becomes accessible in steps of so many bytes.
const STEP: usize = 256 << 10;

/// Blocks of so many bytes have mappings of their own, which go back to the system when they are freed: the size from
/// which glibc never keeps a block in its heap (`DEFAULT_MMAP_THRESHOLD_MAX`).
const LARGE: usize = 32 << 20;

const PAGE: usize = 4096;

/// The window: where it begins, and how many bytes it has. Written once, before Python starts.
static START: AtomicUsize = AtomicUsize::new(0);
static LENGTH: AtomicUsize = AtomicUsize::new(0);

/// What the lock guards.
struct Heap {
    small: Dlmalloc<Window>,
    /// Blocks with mappings of their own, and their lengths.
    large: BTreeMap<usize, usize>,
}

/// The heap, and its lock. Whoever has the lock calls no code of Python's.
struct Locked {
    taken: AtomicBool,
    heap: UnsafeCell<Heap>,
}

// SAFETY: the heap is used under the lock only.
unsafe impl Sync for Locked {}

static HEAP: Locked = Locked {
    taken: AtomicBool::new(false),
    heap: UnsafeCell::new(Heap {
        small: Dlmalloc::new_with_allocator(Window {
            used: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
        }),
        large: BTreeMap::new(),
    }),
};

impl Locked {
    fn with<T>(&self, action: impl FnOnce(&mut Heap) -> T) -> T {
        self.lock();
        // SAFETY: nobody else has the lock.
        let result = action(unsafe { &mut *self.heap.get() });
        self.unlock();
        result
    }

    /// Nearly always under the GIL, and free then.
    fn lock(&self) {
        while self.taken.swap(true, Ordering::Acquire) {
            std::thread::yield_now();
        }
    }

    fn unlock(&self) {
        self.taken.store(false, Ordering::Release);
    }
}

/// A fork waits until no other thread has the lock: the child would never get it.
extern "C" fn before_fork() {
    HEAP.lock();
}

extern "C" fn after_fork() {
    HEAP.unlock();
}

/// Has Python take its raw memory from here, unless there are no addresses for a window.
///
/// # Safety
/// Nothing has called this interpreter's Python yet.
pub(crate) unsafe fn install() {
    let Some((start, length)) = WINDOWS.into_iter().find_map(reserved) else { return };
    START.store(start, Ordering::Relaxed);
    LENGTH.store(length, Ordering::Relaxed);
    // SAFETY: the functions need no argument. The allocator may be set before Python starts, and is copied.
    unsafe {
        libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork));
        PyMem_SetAllocator(
            PyMemAllocatorDomain::PYMEM_DOMAIN_RAW,
            &mut PyMemAllocatorEx {
                ctx: ptr::null_mut(),
                malloc: Some(malloc),
                calloc: Some(calloc),
                realloc: Some(realloc),
                free: Some(free),
            },
        );
    }
}

/// See [`crate::table::PayloadTable::regions`].
pub(crate) unsafe extern "C" fn regions(
    visit: unsafe extern "C" fn(*mut c_void, Region),
    context: *mut c_void,
) {
    let of_blocks = HEAP.with(|heap| heap.large.clone());
    let window = (START.load(Ordering::Relaxed), LENGTH.load(Ordering::Relaxed));
    let raw = std::iter::once(window).chain(of_blocks).map(|range| (Purpose::RAW, range));
    for (purpose, (start, length)) in raw.chain([(Purpose::ARENAS, arenas::window())]) {
        // SAFETY: the host's function and its context, by contract.
        unsafe { visit(context, Region { purpose, start, length }) };
    }
}

/// Whether the address is one of the window.
pub(crate) fn owns(address: *const c_void) -> bool {
    address.addr().wrapping_sub(START.load(Ordering::Relaxed)) < LENGTH.load(Ordering::Relaxed)
}

/// Calls `action` with the used addresses of the window, while nobody takes or frees memory there.
pub(crate) fn still<T>(action: impl FnOnce(Range<usize>) -> T) -> T {
    HEAP.with(|heap| {
        // SAFETY: no precondition. What is free at the end of the window goes back to the system.
        unsafe { heap.small.trim(0) };
        let start = START.load(Ordering::Relaxed);
        action(start..start + heap.small.allocator().used.load(Ordering::Relaxed))
    })
}

/// A window of so many bytes that nobody can access.
pub(crate) fn reserved(length: usize) -> Option<(usize, usize)> {
    // SAFETY: a mapping at an address of the kernel's choice replaces nothing.
    let start = unsafe { map(ptr::null_mut(), length, libc::PROT_NONE, 0) };
    start.map(|start| (start.addr(), length))
}

/// A heap of so many pieces gets the pages of the next one at once.
const MANY: usize = 32;

/// Notes that a heap at `start` has grown by the bytes `grown`. If that is one new piece of many, the kernel gives its pages at once: a page
/// costs more if it waits for its first write, and a heap which grows no more has a few hundredths too much then.
///
/// Several pieces are for one large block, and nobody knows how much of it will be written. A piece below `most`, the end of all that there
/// ever was, has had its pages: calls may take and leave it again and again, and use a few of them.
pub(crate) fn touch(start: usize, grown: Range<usize>, piece: usize, most: &AtomicUsize) {
    let is_new = grown.start >= most.fetch_max(grown.end, Ordering::Relaxed);
    if is_new && grown.len() == piece && grown.start >= MANY * piece {
        let place = ptr::with_exposed_provenance_mut(start + grown.start);
        // SAFETY: the piece is accessible and empty. The advice does what writes to its pages would do. Linux before 5.14 refuses it.
        unsafe { libc::madvise(place, piece, libc::MADV_POPULATE_WRITE) };
    }
}

/// Maps memory that is zero. `more` are further flags.
///
/// # Safety
/// With `MAP_FIXED`, nobody uses what is at the place.
pub(crate) unsafe fn map(
    place: *mut c_void,
    length: usize,
    protection: c_int,
    more: c_int,
) -> Option<*mut c_void> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | more;
    // SAFETY: the caller's promise.
    let start = unsafe { libc::mmap(place, length, protection, flags, -1, 0) };
    (start != libc::MAP_FAILED).then_some(start)
}

/// The part of the window that is in use: its first bytes.
struct Window {
    used: AtomicUsize,
    /// The most that was in use.
    most: AtomicUsize,
}

impl Window {
    fn set(&self, from: usize, to: usize, protection: c_int) -> bool {
        let start = START.load(Ordering::Relaxed);
        let place = ptr::with_exposed_provenance_mut(start + from);
        // SAFETY: the pages lie in the window, and nobody uses them: they become, or were, free.
        unsafe { libc::mprotect(place, to - from, protection) == 0 }
    }
}

// SAFETY: a part of the window is given out once until it is given back, and its bytes are zero then.
unsafe impl Allocator for Window {
    fn alloc(&self, size: usize) -> (*mut u8, usize, u32) {
        let none = (ptr::null_mut(), 0, 0);
        let used = self.used.load(Ordering::Relaxed);
        let Some(size) = size.checked_next_multiple_of(STEP) else { return none };
        if size > LENGTH.load(Ordering::Relaxed) - used || !ceiling::take(size) {
            return none;
        }
        if !self.set(used, used + size, libc::PROT_READ | libc::PROT_WRITE) {
            ceiling::give_back(size);
            return none;
        }
        self.used.store(used + size, Ordering::Relaxed);
        let start = START.load(Ordering::Relaxed);
        touch(start, used..used + size, STEP, &self.most);
        (ptr::with_exposed_provenance_mut(start + used), size, 0)
    }

    fn remap(&self, _: *mut u8, _: usize, _: usize, _: bool) -> *mut u8 {
        ptr::null_mut()
    }

    /// Gives the end of the used part back.
    fn free_part(&self, start: *mut u8, old_size: usize, new_size: usize) -> bool {
        let used = self.used.load(Ordering::Relaxed);
        let first = start.addr() - START.load(Ordering::Relaxed);
        let keeps = (first + new_size).next_multiple_of(PAGE);
        if first + old_size != used || keeps != first + new_size {
            return false;
        }
        let place = ptr::with_exposed_provenance_mut(START.load(Ordering::Relaxed) + keeps);
        // A new mapping: pages of a file that may lie there would come back with the file's bytes.
        // SAFETY: the pages lie in the window, and what is in them is free.
        if unsafe { map(place, used - keeps, libc::PROT_NONE, libc::MAP_FIXED) }.is_none() {
            return false;
        }
        self.used.store(keeps, Ordering::Relaxed);
        ceiling::give_back(used - keeps);
        true
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

/// Whose a block is.
enum Block {
    Small,
    /// With a mapping of its own of so many bytes.
    Large(usize),
    /// malloc's, or null.
    Foreign,
}

impl Heap {
    fn block(&self, address: *mut c_void) -> Block {
        if owns(address) {
            return Block::Small;
        }
        let large = || self.large.get(&address.addr());
        let length = if address.addr().is_multiple_of(PAGE) { large() } else { None };
        length.map_or(Block::Foreign, |&length| Block::Large(length))
    }

    fn allocate(&mut self, size: usize) -> *mut c_void {
        if size < LARGE {
            // SAFETY: no precondition.
            return unsafe { self.small.c_malloc(size) }.cast();
        }
        let Some(length) = size.checked_next_multiple_of(PAGE) else { return ptr::null_mut() };
        if !ceiling::take(length) {
            return ptr::null_mut();
        }
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a mapping at an address of the kernel's choice replaces nothing.
        match unsafe { map(ptr::null_mut(), length, protection, 0) } {
            Some(start) => {
                self.large.insert(start.addr(), length);
                start
            }
            None => {
                ceiling::give_back(length);
                ptr::null_mut()
            }
        }
    }

    /// # Safety
    /// The block is free from now on.
    unsafe fn release(&mut self, address: *mut c_void) {
        match self.block(address) {
            // SAFETY: the caller's promise.
            Block::Small => unsafe { self.small.c_free(address.cast()) },
            Block::Large(length) => {
                self.large.remove(&address.addr());
                ceiling::give_back(length);
                // SAFETY: as above; the mapping is the block's own.
                unsafe { libc::munmap(address, length) };
            }
            // SAFETY: as above.
            Block::Foreign => unsafe { libc::free(address) },
        }
    }
}

/// Python's allocators give blocks of at least one byte.
extern "C" fn malloc(_: *mut c_void, size: usize) -> *mut c_void {
    HEAP.with(|heap| heap.allocate(size.max(1)))
}

extern "C" fn calloc(_: *mut c_void, count: usize, size: usize) -> *mut c_void {
    let Some(size) = count.checked_mul(size) else { return ptr::null_mut() };
    let block = HEAP.with(|heap| heap.allocate(size.max(1)));
    // A mapping of its own is zero.
    if !block.is_null() && size < LARGE {
        // SAFETY: a new block of that size, whose pages the kernel has filled once.
        unsafe { clear(std::slice::from_raw_parts_mut(block.cast(), size)) };
    }
    block
}

/// Makes bytes zero. Those that are zero are not written: a page that nobody has written takes no memory, also when it is
/// read. CPython has 384 KiB of tables from its start on that it hardly uses.
fn clear(bytes: &mut [u8]) {
    static ZEROS: [u8; PAGE] = [0; PAGE];
    for page in bytes.chunks_mut(PAGE) {
        if page != ZEROS {
            page.fill(0);
        }
    }
}

extern "C" fn realloc(_: *mut c_void, block: *mut c_void, size: usize) -> *mut c_void {
    let size = size.max(1);
    // SAFETY: a block of one of the kinds, or null, as the callers of Python's allocators promise.
    HEAP.with(|heap| unsafe {
        match heap.block(block) {
            _ if block.is_null() => heap.allocate(size),
            Block::Foreign => libc::realloc(block, size),
            Block::Small if size < LARGE => heap.small.c_realloc(block.cast(), size).cast(),
            Block::Small => {
                let new = heap.allocate(size);
                if new.is_null() {
                    return new;
                }
                // How many bytes it has nobody says. So it gets as many as are copied. This is last: where there is no
                // memory, the caller goes on with the block.
                let longer = heap.small.c_realloc(block.cast(), LARGE);
                if longer.is_null() {
                    heap.release(new);
                    return ptr::null_mut();
                }
                ptr::copy_nonoverlapping(longer, new.cast(), LARGE);
                heap.small.c_free(longer);
                new
            }
            Block::Large(length) if size.div_ceil(PAGE) == length / PAGE => block,
            Block::Large(length) => heap.moved(block, length.min(size), size),
        }
    })
}

impl Heap {
    /// A new block of `size` bytes with the first `kept` ones of `block`, which is released; null, without a change, if
    /// there is no memory.
    ///
    /// # Safety
    /// The block has so many bytes, and nobody uses it.
    unsafe fn moved(&mut self, block: *mut c_void, kept: usize, size: usize) -> *mut c_void {
        let new = self.allocate(size);
        if !new.is_null() {
            // SAFETY: both have so many bytes, and the new one is not the old one.
            unsafe {
                ptr::copy_nonoverlapping(block.cast::<u8>(), new.cast(), kept);
                self.release(block);
            }
        }
        new
    }
}

/// Called before a block is freed, once it is known.
pub(crate) static BEFORE_FREE: OnceLock<fn()> = OnceLock::new();

extern "C" fn free(_: *mut c_void, block: *mut c_void) {
    if let Some(before) = BEFORE_FREE.get() {
        before();
    }
    // SAFETY: a block that is not used any more, or null, as the callers of Python's allocators promise.
    HEAP.with(|heap| unsafe { heap.release(block) });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(block: *mut c_void, size: usize, byte: u8) {
        // SAFETY: the tests give the size of the block.
        unsafe { ptr::write_bytes(block.cast::<u8>(), byte, size) };
    }

    fn is_filled(block: *mut c_void, size: usize, byte: u8) -> bool {
        // SAFETY: as above, and it was filled.
        let bytes = unsafe { std::slice::from_raw_parts(block.cast::<u8>(), size) };
        bytes.iter().all(|other| *other == byte)
    }

    #[test]
    fn blocks_of_each_kind_keep_their_bytes_as_they_grow_and_shrink() {
        let none = ptr::null_mut();
        if START.load(Ordering::Relaxed) == 0 {
            let (start, length) = reserved(1 << 30).unwrap();
            START.store(start, Ordering::Relaxed);
            LENGTH.store(length, Ordering::Relaxed);
        }
        let sizes =
            [1, 600, 5000, 300_000, 3 << 20, LARGE - 1, LARGE, 2 * LARGE, LARGE + 1, 700, 9];
        let mut others = Vec::new();
        let (mut block, mut before) = (malloc(none, 100), 100);
        fill(block, before, 7);
        for (number, &size) in sizes.iter().enumerate() {
            block = realloc(none, block, size);
            assert!(is_filled(block, before.min(size), 7), "{before} -> {size}");
            fill(block, size, 7);
            before = size;
            let other = calloc(none, size, 1);
            assert!(is_filled(other, size, 0), "{size}");
            fill(other, size, number as u8);
            others.push((other, size, number as u8));
        }
        for (other, size, byte) in others {
            assert!(is_filled(other, size, byte));
            free(none, other);
        }
        free(none, block);
        // SAFETY: malloc's.
        let foreign = unsafe { libc::malloc(10) };
        free(none, realloc(none, foreign, 5000));
        free(none, none);
        HEAP.with(|heap| {
            assert!(heap.large.is_empty());
            let used = heap.small.allocator().used.load(Ordering::Relaxed);
            assert!(used < 4 << 20, "{used} bytes are kept");
        });
        assert!(calloc(none, usize::MAX, 2).is_null());
        assert!(malloc(none, usize::MAX).is_null());

        // A block that cannot grow stays as it is: there is room for neither block, and for the new one alone.
        for room in [LARGE, 2 * LARGE + LARGE / 2] {
            let block = malloc(none, 5000);
            fill(block, 5000, 9);
            let _in_its_way = malloc(none, 5000);
            let taken = ceiling::set(0).unwrap_err();
            ceiling::set(taken + room).unwrap();
            assert!(realloc(none, block, 2 * LARGE).is_null());
            assert_eq!(ceiling::set(0), Err(taken));
            ceiling::set(usize::MAX).unwrap();
            assert!(is_filled(block, 5000, 9));
            free(none, block);
        }
    }
}
