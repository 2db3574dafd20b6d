//! The CPU time of a thread.

use std::time::Duration;

use anyhow::Result;

/// The CPU time that this thread has taken so far.
pub fn now() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the clock exists on Linux (clock_gettime(2)), and the kernel writes a whole structure.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    assert_eq!(status, 0, "the clock of the thread's CPU time");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// The CPU time of `calls` calls of `call`.
pub fn time(calls: usize, mut call: impl FnMut() -> Result<()>) -> Result<Duration> {
    let start = now();
    for _ in 0..calls {
        call()?;
    }
    Ok(now() - start)
}

/// As [`time`], of calls that each take an item which is made before the clock starts, `batch` items at once.
pub fn time_prepared<T>(
    calls: usize,
    batch: usize,
    mut prepare: impl FnMut() -> T,
    mut call: impl FnMut(T) -> Result<()>,
) -> Result<Duration> {
    let mut total = Duration::ZERO;
    let mut left = calls;
    while left > 0 {
        let items: Vec<T> = (0..left.min(batch)).map(|_| prepare()).collect();
        left -= items.len();
        let start = now();
        for item in items {
            call(item)?;
        }
        total += now() - start;
    }
    Ok(total)
}
