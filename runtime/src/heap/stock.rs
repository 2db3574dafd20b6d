//! Windows of addresses for heaps: a stock of reserved ones, and which heap has which.

use super::Heap;
use hydrozoa_loader::LeafLock;
use hydrozoa_payload::pages::{map, page_size, reserved};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A window begins at a multiple of so many bytes.
const PLACE: usize = 1 << SHIFT;
const SHIFT: u32 = 37;

/// Bytes of address space of a window: the first that the kernel grants, under a limit on address space
/// (`RLIMIT_AS`) or on overcommitment.
const LENGTHS: [usize; 4] = [PLACE, 8 << 30, 1 << 30, 128 << 20];

/// The bits of addresses of user space. mmap(2) gives longer ones to those only who ask for them (Documentation/arch/x86/x86_64/mm.rst
/// and Documentation/arch/arm64/memory.rst of the kernel). Some kernels for AArch64 have fewer.
const ADDRESS_BITS: u32 = if cfg!(target_arch = "x86_64") { 47 } else { 48 };

/// The heaps by the numbers of their windows.
static HEAPS: [AtomicPtr<Heap>; 1 << (ADDRESS_BITS - SHIFT)] =
    [const { AtomicPtr::new(ptr::null_mut()) }; 1 << (ADDRESS_BITS - SHIFT)];

/// So many windows are reserved at once.
const AT_ONCE: usize = 4;

/// How far below the mappings of the process the windows begin. The space between is unused: the kernel puts mappings one
/// below the other, from the top, and programs and their heap tens of TiB below (ELF_ET_DYN_BASE: two thirds of the addresses). A kernel with
/// fewer bits may have no addresses there.
const BELOW: usize = 24 << 40;

/// The windows that are reserved and unused, and where further ones shall begin.
static STOCK: LeafLock<Stock> = LeafLock::new(Stock { windows: 0..0, next: None });

/// Reserved windows are side by side, as far as the kernel has it so: those that are left become one mapping.
struct Stock {
    windows: Range<usize>,
    next: Option<usize>,
}

impl Stock {
    /// Takes the first window; reserves some if none is left.
    fn take(&mut self) -> Option<Range<usize>> {
        if self.windows.is_empty() {
            let several = self.reserve(AT_ONCE * PLACE);
            if let Some(short) = several.is_none().then(|| self.short()) {
                return short;
            }
            self.windows = several?;
        }
        let start = self.windows.start;
        self.windows.start += PLACE;
        Some(start..start + PLACE)
    }

    /// The longest window that there is room for, alone in its place.
    fn short(&mut self) -> Option<Range<usize>> {
        LENGTHS.into_iter().find_map(|length| self.reserve(length))
    }

    /// So many addresses from the start of a place on.
    fn reserve(&mut self, length: usize) -> Option<Range<usize>> {
        let first = || Some(anywhere()?.checked_sub(BELOW)?.next_multiple_of(PLACE));
        let next = self.next.or_else(first);
        let reserved =
            next.and_then(|next| side_by_side(next, length)).or_else(|| elsewhere(length))?;
        self.next = Some(reserved.end.next_multiple_of(PLACE));
        Some(reserved)
    }
}

/// Gives a part of a mapping back, which nobody knows.
fn unmap(part: Range<usize>) {
    if !part.is_empty() {
        // SAFETY: the caller has mapped it, and nobody else knows its addresses.
        unsafe { libc::munmap(ptr::with_exposed_provenance_mut(part.start), part.len()) };
    }
}

/// Where the kernel would put a mapping.
fn anywhere() -> Option<usize> {
    let (mapped, length) = reserved(page_size())?;
    unmap(mapped..mapped + length);
    Some(mapped)
}

/// Addresses from `start` on, if they are free.
fn side_by_side(start: usize, length: usize) -> Option<Range<usize>> {
    let wanted = ptr::with_exposed_provenance_mut(start);
    // SAFETY: a mapping at a free address replaces nothing.
    let mapped = unsafe { map(wanted, length, libc::PROT_NONE, libc::MAP_FIXED_NOREPLACE) }?;
    let mapped = mapped.expose_provenance();
    // A kernel before 4.17 does not know the flag, and takes the address for a wish (mmap(2)).
    if mapped != start {
        unmap(mapped..mapped + length);
        return None;
    }
    Some(start..start + length)
}

/// Addresses of the kernel's choice.
fn elsewhere(length: usize) -> Option<Range<usize>> {
    let (mapped, _) = reserved(length + PLACE)?;
    let start = mapped.next_multiple_of(PLACE);
    unmap(mapped..start);
    unmap(start + length..mapped + length + PLACE);
    Some(start..start + length)
}

/// A window, if the kernel grants one. Nobody can access its addresses.
pub(super) fn take() -> Option<Range<usize>> {
    let window = STOCK.with(Stock::take)?;
    (window.start >> SHIFT < HEAPS.len()).then_some(window)
}

/// Notes whose a window of the stock is.
pub(super) fn note(window: &Range<usize>, heap: &'static Heap) {
    HEAPS[window.start >> SHIFT].store(ptr::from_ref(heap).cast_mut(), Ordering::Release);
}

/// All heaps.
pub(super) fn heaps() -> impl Iterator<Item = &'static Heap> {
    // SAFETY: null, or a heap that is never freed.
    HEAPS.iter().filter_map(|place| unsafe { place.load(Ordering::Acquire).as_ref() })
}

/// The heap whose window an address lies in.
#[inline]
pub(super) fn owner(address: usize) -> Option<&'static Heap> {
    let heap = HEAPS.get(address >> SHIFT)?.load(Ordering::Acquire);
    // SAFETY: null, or a heap that is never freed.
    unsafe { heap.as_ref() }
}
