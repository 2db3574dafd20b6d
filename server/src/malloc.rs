//! The C library's malloc in a server: what it does with large blocks that are freed.

use std::env;

/// Freed blocks of up to 32 MiB stay in malloc's heaps, and each heap gives back what exceeds 64 MiB at its end.
///
/// By default glibc gives a block of 128 KiB and more a mapping of its own until a larger one was freed, and gives back a
/// heap's end when twice that is free (mallopt(3)). The tensors of each request are such blocks. So each of them would be
/// pages that the kernel has to clear and to map: a request of 1 MB took 1.5 times as long.
///
/// Variables that say how malloc works are obeyed instead.
pub fn keep_large_blocks() {
    const VARIABLES: [&str; 3] =
        ["MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"];
    if VARIABLES.iter().any(|name| env::var_os(name).is_some()) {
        return;
    }
    // The largest number that mallopt(3) takes for it.
    let settings = [(libc::M_MMAP_THRESHOLD, 32 << 20), (libc::M_TRIM_THRESHOLD, 64 << 20)];
    for (setting, bytes) in settings {
        // SAFETY: these settings take any number, and an allocator that does not know them ignores them.
        unsafe { libc::mallopt(setting, bytes) };
    }
}
