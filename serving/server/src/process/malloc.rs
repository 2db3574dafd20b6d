//! The C library's malloc in a server: its handling of large freed blocks.

use std::env;

/// Keeps freed blocks of up to 32 MiB in malloc's heaps. Each heap gives back memory beyond 64 MiB at its end.
///
/// By default glibc gives a block of 128 KiB and more a mapping of its own until a larger one was freed, and gives back a
/// heap's end when twice that is free (mallopt(3)). The tensors of each request are such blocks. So the kernel would have to
/// clear and map pages for each of them: a request of 1 MB took 1.5 times as long.
///
/// Environment variables that configure malloc take precedence.
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
