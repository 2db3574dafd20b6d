//! Pages, of which kernels for this machine have one of three sizes (Documentation/arch/arm64/memory.rst of the kernel).

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a page: 4, 16 or 64 KiB. A handler of signals may ask.
pub(crate) fn page_size() -> usize {
    /// 0 as long as nobody has asked.
    static SIZE: AtomicUsize = AtomicUsize::new(0);
    let known = SIZE.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    // SAFETY: asks for a number, which the kernel gives each program.
    let size = unsafe { libc::getauxval(libc::AT_PAGESZ) } as usize;
    assert!(size.is_power_of_two(), "the kernel names no size of a page");
    SIZE.store(size, Ordering::Relaxed);
    size
}
