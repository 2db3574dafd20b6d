//! How the C library's malloc treats large blocks in a server. A process of its own: the settings are the process's.

use std::ffi::c_void;

/// Blocks of `size` bytes that live at the same time, and how many of them have a mapping of their own.
fn mapped(size: usize) -> usize {
    // SAFETY: no precondition.
    let count = || unsafe { libc::mallinfo2() }.hblks;
    let before = count();
    // SAFETY: no precondition; each block is freed below.
    let blocks: Vec<*mut c_void> = (0..8).map(|_| unsafe { libc::malloc(size) }).collect();
    let mapped = count() - before;
    for block in blocks {
        assert!(!block.is_null());
        // SAFETY: allocated above, and freed once.
        unsafe { libc::free(block) };
    }
    mapped
}

#[test]
fn blocks_of_requests_stay_in_the_heaps() {
    // Freed, they raise glibc's own threshold to their size: those below are larger.
    let words = "malloc has settings of its own: unset MALLOC_* and GLIBC_TUNABLES";
    assert!(mapped(1 << 20) > 0, "{words}");
    hydrozoa_server::keep_large_blocks();
    assert_eq!(mapped(20 << 20), 0);
    assert!(mapped(48 << 20) > 0);
}
