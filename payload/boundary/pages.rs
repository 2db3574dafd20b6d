//! Pages of the system, for the windows of addresses of both sides: pymalloc's arenas, and the heap of an interpreter.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a page: 4 KiB on every x86-64. Kernels for AArch64 have pages of 4, 16 or 64 KiB. A handler of signals may ask.
#[inline]
pub fn page_size() -> usize {
    if cfg!(target_arch = "x86_64") { 4096 } else { asked_page_size() }
}

/// The size that the kernel names.
fn asked_page_size() -> usize {
    /// 0 as long as nobody has asked.
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    let known = SIZE.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // SAFETY: asks for a number, which each program has got from the kernel (getauxval(3)).
    let size = unsafe { libc::getauxval(libc::AT_PAGESZ) } as usize;
    SIZE.store(size, Ordering::Relaxed);
    size
}

/// A heap of so many pieces gets the pages of the next one at once.
const MANY: usize = 32;

/// Notes that a heap at `start` has grown by the bytes `grown`. If that is one new piece of many, the kernel gives its pages at once: a page
/// costs more if it waits for its first write, and a heap which grows no more has a few hundredths too much then.
///
/// Several pieces are for one large block, and nobody knows how much of it will be written. A piece below `most`, the end of all that there
/// ever was, has had its pages: calls may take and leave it again and again, and use a few of them.
pub fn populate(start: usize, grown: Range<usize>, piece: usize, most: &AtomicUsize) {
    let is_new = grown.start >= most.fetch_max(grown.end, Ordering::Relaxed);
    if is_new && grown.len() == piece && grown.start >= MANY * piece {
        let place = ptr::with_exposed_provenance_mut(start + grown.start);
        // SAFETY: the advice does what writes of zeros to empty pages would do, and fails where no memory is. Linux before 5.14 refuses it.
        unsafe { libc::madvise(place, piece, libc::MADV_POPULATE_WRITE) };
    }
}

/// Maps memory that is zero. `more` are further flags.
///
/// # Safety
///
/// With `MAP_FIXED`, nobody uses what is at the place.
pub unsafe fn map(
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

/// So many addresses that nobody can access, where the kernel has room: the first, and their number.
pub fn reserved(length: usize) -> Option<(usize, usize)> {
    // SAFETY: a mapping at an address of the kernel's choice replaces nothing.
    let start = unsafe { map(ptr::null_mut(), length, libc::PROT_NONE, 0) };
    start.map(|start| (start.expose_provenance(), length))
}

#[cfg(test)]
mod tests {
    use super::{asked_page_size, page_size};

    #[test]
    fn the_size_of_a_page_is_that_of_the_system() {
        // SAFETY: asks for a number.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        assert_eq!((page_size(), asked_page_size(), asked_page_size()), (size, size, size));
    }
}
