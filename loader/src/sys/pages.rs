//! The size of a page.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a page: 4 KiB on every x86-64. Kernels for AArch64 have pages of 4, 16 or 64 KiB (Documentation/arch/arm64/memory.rst). A
/// handler of signals may ask.
#[inline]
pub(crate) fn page_size() -> usize {
    if cfg!(target_arch = "x86_64") { 4096 } else { asked() }
}

/// The size that the kernel names.
fn asked() -> usize {
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

/// `value` rounded down to a multiple of the page size.
pub(crate) fn page_down(value: usize) -> usize {
    value & !(page_size() - 1)
}

/// `value` rounded up to a multiple of the page size; `None` on overflow.
pub(crate) fn page_up(value: usize) -> Option<usize> {
    value.checked_add(page_size() - 1).map(page_down)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_of_a_page_is_that_of_the_system() {
        // SAFETY: asks for a number.
        let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        assert_eq!((page_size(), asked(), asked()), (size, size, size));
    }

    #[test]
    fn numbers_are_rounded_to_pages() {
        let size = page_size();
        assert_eq!([0, 1, size - 1, size, size + 1].map(page_down), [0, 0, 0, size, size]);
        assert_eq!(page_up(size + 1), Some(2 * size));
        assert_eq!((page_up(0), page_up(usize::MAX)), (Some(0), None));
    }
}
