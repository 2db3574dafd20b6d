//! Whether a thread sleeps in the kernel.

use std::fs;

/// System calls in which a thread sleeps that waits for time, a lock, files, or a child. They change no memory of Python's but the
/// results of poll(2) and its kin, which the kernel writes once.
const SLEEPS: [libc::c_long; 12] = [
    libc::SYS_futex,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_wait4,
    libc::SYS_waitid,
];

/// The earlier forms of some, which newer machines lack.
#[cfg(target_arch = "x86_64")]
const EARLIER: [libc::c_long; 4] =
    [libc::SYS_poll, libc::SYS_select, libc::SYS_epoll_wait, libc::SYS_pause];
#[cfg(target_arch = "aarch64")]
const EARLIER: [libc::c_long; 0] = [];

/// Whether a thread of this process, by its number in the kernel, sleeps in one of them (proc_pid_syscall(5)). It may wake up at any time.
pub(crate) fn is_asleep(thread: libc::pid_t) -> bool {
    let path = format!("/proc/self/task/{thread}/syscall");
    let text = fs::read_to_string(path).unwrap_or_default();
    let number = text.split(' ').next().and_then(|number| number.parse().ok());
    number.is_some_and(|number| SLEEPS.contains(&number) || EARLIER.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::is_asleep;
    use hydrozoa_loader::thread_number as own;
    use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    #[test]
    fn a_thread_that_waits_is_asleep_and_one_that_works_is_not() {
        assert!(!is_asleep(own()));
        assert!(!is_asleep(1 << 30));
        let (number, works) = (AtomicI32::new(0), AtomicBool::new(true));
        let (send, receive) = channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                number.store(own(), Ordering::Relaxed);
                while works.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
                receive.into_iter().for_each(drop);
            });
            let other = || match number.load(Ordering::Relaxed) {
                0 => None,
                number => Some(number),
            };
            let end = Instant::now() + Duration::from_secs(30);
            while other().is_none() {
                assert!(Instant::now() < end);
            }
            assert!((0..1000).all(|_| !is_asleep(number.load(Ordering::Relaxed))));
            works.store(false, Ordering::Relaxed);
            while !other().is_some_and(is_asleep) {
                assert!(Instant::now() < end);
            }
            drop(send);
        });
    }
}
