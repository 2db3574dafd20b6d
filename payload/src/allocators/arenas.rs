//! The arenas of an interpreter: what pymalloc takes for its small objects.
//!
//! pymalloc takes arenas of 1 MiB from mmap (Include/internal/pycore_obmalloc.h). The kernel puts them wherever the
//! process has room. Here they lie in one window of addresses of the interpreter's own, beside that of its heap, which the host manages. The
//! loader notes the window for the interpreter, and at the interpreter's end it goes back to the system as a whole. As long as
//! Python runs, an arena goes back as it becomes free, and the next arena gets its addresses.
//!
//! Arenas that find no place in the window come from CPython's own allocator.

use crate::table::Region;
use hydrozoa_payload::pages::{map, populate, reserved};
use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Bytes of an arena, in all versions of CPython from 3.10 on (`ARENA_SIZE`).
pub(crate) const ARENA: usize = 1 << 20;

/// Bytes of address space for the window: the first that the kernel grants. A process with a narrow limit on address
/// space (`RLIMIT_AS`) needs it for other things.
const WINDOWS: [usize; 2] = [64 << 30, 8 << 30];

/// The first arena's address, or 0.
static START: AtomicUsize = AtomicUsize::new(0);
/// The number of arenas that have room.
static PLACES: AtomicUsize = AtomicUsize::new(0);

/// The end of all arenas that there ever were, in bytes from the first.
static MOST: AtomicUsize = AtomicUsize::new(0);

/// A bit for each place of the largest window, set while an arena is there. Sub-interpreters with a GIL of their own take
/// arenas at the same time.
static TAKEN: [AtomicU64; WINDOWS[0] / ARENA / 64] =
    [const { AtomicU64::new(0) }; WINDOWS[0] / ARENA / 64];

/// Reserves the window, unless the addresses run out.
pub(crate) fn reserve() {
    let Some((start, length)) = WINDOWS.into_iter().find_map(reserved) else { return };
    let first = start.next_multiple_of(ARENA);
    START.store(first, Ordering::Relaxed);
    PLACES.store((start + length - first) / ARENA, Ordering::Relaxed);
}

/// An arena at the lowest free place. Its bytes are zero.
pub(crate) fn take() -> Option<*mut c_void> {
    let place = (0..PLACES.load(Ordering::Relaxed).div_ceil(64)).find_map(claim)?;
    let arena = address(place);
    // SAFETY: the place was free, so nobody uses its pages.
    if unsafe { libc::mprotect(arena, ARENA, libc::PROT_READ | libc::PROT_WRITE) } == 0 {
        // Free places are taken from the lowest one up, so nearly all below it are arenas.
        populate(START.load(Ordering::Relaxed), place * ARENA..(place + 1) * ARENA, ARENA, &MOST);
        return Some(arena);
    }
    leave(place);
    None
}

/// Sets the lowest free bit of a word, and returns the place that it stands for.
fn claim(index: usize) -> Option<usize> {
    let (word, places) = (&TAKEN[index], PLACES.load(Ordering::Relaxed));
    let mut bits = word.load(Ordering::Relaxed);
    loop {
        let free = bits.trailing_ones() as usize;
        let place = 64 * index + free;
        if free == 64 || place >= places {
            return None;
        }
        let more = bits | 1 << free;
        match word.compare_exchange_weak(bits, more, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return Some(place),
            Err(now) => bits = now,
        }
    }
}

fn leave(place: usize) {
    TAKEN[place / 64].fetch_and(!(1 << (place % 64)), Ordering::AcqRel);
}

fn address(place: usize) -> *mut c_void {
    ptr::with_exposed_provenance_mut(START.load(Ordering::Relaxed) + place * ARENA)
}

/// Whether the address is one of the window.
pub(crate) fn owns(address: *const c_void) -> bool {
    let length = PLACES.load(Ordering::Relaxed) * ARENA;
    address.addr().wrapping_sub(START.load(Ordering::Relaxed)) < length
}

/// See [`crate::table::PayloadTable::arenas`].
pub(crate) unsafe extern "C" fn visit(
    visit: unsafe extern "C" fn(*mut c_void, Region),
    context: *mut c_void,
) {
    for range in ranges() {
        // SAFETY: the host's function and its context, by contract.
        unsafe { visit(context, Region { start: range.start, length: range.len() }) };
    }
}

/// Gives an arena back to the system.
///
/// # Safety
/// [`take`] has returned it, and nobody uses it any more.
pub(crate) unsafe fn release(arena: *mut c_void) {
    let place = (arena.addr() - START.load(Ordering::Relaxed)) / ARENA;
    // Pages of a file that may lie there go too, so the next arena begins with zeros.
    // SAFETY: the caller's promise.
    if unsafe { map(arena, ARENA, libc::PROT_NONE, libc::MAP_FIXED) }.is_some() {
        leave(place);
        return;
    }
    // The process has as many mappings as it may have. The addresses stay taken, and the memory goes back.
    // SAFETY: as above.
    unsafe { libc::madvise(arena, ARENA, libc::MADV_DONTNEED) };
}

/// The addresses at which arenas are, neighbours as one range. The caller makes sure that none comes or goes meanwhile.
fn ranges() -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for place in 0..PLACES.load(Ordering::Relaxed) {
        let word = TAKEN[place / 64].load(Ordering::Acquire);
        if word & 1 << (place % 64) == 0 {
            continue;
        }
        let start = address(place).addr();
        match ranges.last_mut() {
            Some(last) if last.end == start => last.end += ARENA,
            _ => ranges.push(start..start + ARENA),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the page at an address is in memory.
    fn is_resident(address: usize) -> bool {
        let mut resident = 0;
        // SAFETY: the place has room for one page's answer.
        let known =
            unsafe { libc::mincore(ptr::with_exposed_provenance_mut(address), 1, &mut resident) };
        known == 0 && resident & 1 != 0
    }

    #[test]
    fn a_free_arena_goes_back_to_the_system_and_the_next_one_has_its_addresses() {
        reserve();
        let arenas: Vec<usize> = (0..130).map(|_| take().unwrap().addr()).collect();
        for (index, arena) in arenas.iter().enumerate() {
            // Once an arena is a thirty-second of what there is, it gets its pages at once.
            assert_eq!(is_resident(*arena), index >= 32, "{index}");
            assert_eq!(*arena, arenas[0] + index * ARENA);
            assert_eq!(arena % ARENA, 0);
            // SAFETY: an arena is writable.
            unsafe { ptr::write_bytes(ptr::with_exposed_provenance_mut::<u8>(*arena), 7, ARENA) };
        }
        let all = arenas[0]..arenas[0] + 130 * ARENA;
        assert_eq!(ranges().as_slice(), std::slice::from_ref(&all));
        for index in [3, 64, 129] {
            let arena = ptr::with_exposed_provenance_mut::<c_void>(arenas[index]);
            assert!(owns(arena) && is_resident(arenas[index]));
            // SAFETY: `take` has returned it.
            unsafe { release(arena) };
            assert!(!is_resident(arenas[index]));
        }
        assert_eq!(ranges().len(), 3);
        for index in [3, 64, 129] {
            let arena = take().unwrap();
            assert_eq!(arena.addr(), arenas[index]);
            assert!(!is_resident(arenas[index]));
            // SAFETY: an arena is readable.
            let bytes = unsafe { std::slice::from_raw_parts(arena.cast::<u8>(), ARENA) };
            assert!(bytes.iter().all(|byte| *byte == 0));
        }
        assert!(!owns(ptr::null()) && !owns((&raw const PLACES).cast()));
    }
}
