//! futex(2): sleeping until a word is changed.

use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// Sleeps while `word` is `expected`, until another thread wakes this one. It may return spuriously.
pub(super) fn wait(word: &AtomicU32, expected: u32) {
    call(word, libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, expected, ptr::null());
}

/// As [`wait`], for no longer than `limit`.
pub(super) fn wait_up_to(word: &AtomicU32, expected: u32, limit: Duration) {
    let limit = libc::timespec {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_nsec: limit.subsec_nanos() as libc::c_long,
    };
    call(word, libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, expected, &limit);
}

/// Wakes up to `count` threads that sleep on `word`.
pub(super) fn wake(word: &AtomicU32, count: u32) {
    call(word, libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, count, ptr::null());
}

/// The count that wakes all threads.
pub(super) const ALL: u32 = i32::MAX as u32;

fn call(word: &AtomicU32, operation: i32, value: u32, limit: *const libc::timespec) {
    // SAFETY: the word and the limit are valid; null means unlimited. errno is put back: some callers replace functions that keep it.
    unsafe {
        let errno = *libc::__errno_location();
        libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, limit);
        *libc::__errno_location() = errno;
    }
}
