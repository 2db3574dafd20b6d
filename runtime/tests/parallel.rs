//! Interpreters use as many processors as there are threads. The test has a process of its own, so that
//! other tests take no processor from it.

mod pythons;

use pythons::pools;
use std::thread;
use std::time::{Duration, Instant};

/// Pure Python work that takes some hundredths of a second.
const WORK: &str = "
def work():
    total = 0
    for i in range(300_000):
        total = (total + i * i) % 1_000_003
    return total
";

/// The most rounds, and how many of them with two free processors are enough for a verdict.
const ROUNDS: usize = 24;
const ENOUGH: usize = 4;

#[test]
fn two_interpreters_on_two_threads_use_two_processors() {
    if thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("this needs two processors");
        return;
    }
    for pool in pools(2) {
        let run = |index: usize, times: usize| {
            let session = pool.acquire_on(index).unwrap();
            let work = session.run(WORK, "work.py").unwrap().getattr("work").unwrap();
            for _ in 0..times {
                work.call(()).unwrap();
            }
        };
        let interpreters = |second: usize| {
            processors(|| {
                thread::scope(|scope| {
                    scope.spawn(|| run(0, 3));
                    scope.spawn(|| run(second, 3));
                });
            })
        };
        // A busy machine that does not give processors to plain threads, before and after, does not give them to
        // interpreters either. Such a round says nothing.
        let (mut granted, mut two, mut one) = (0, 0_f64, 0_f64);
        for _ in 0..ROUNDS {
            let before = plain_threads();
            let now = interpreters(1);
            one = one.max(interpreters(0));
            granted += usize::from(before.min(plain_threads()) > 1.7);
            two = two.max(now);
            if two > 1.5 || granted == ENOUGH {
                break;
            }
        }
        println!("processors: two interpreters {two:.2}, one {one:.2}; {granted} rounds with two");
        if granted == ENOUGH {
            assert!(two > 1.5, "two interpreters used {two:.2} processors");
        }
        assert!(one < 1.3, "one interpreter used {one:.2} processors");
    }
}

/// Processors that two threads without Python get.
fn plain_threads() -> f64 {
    let spin = || {
        let end = Instant::now() + Duration::from_millis(100);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    };
    processors(|| {
        thread::scope(|scope| {
            scope.spawn(spin);
            scope.spawn(spin);
        });
    })
}

/// Processor time over elapsed time of `action`.
fn processors(action: impl FnOnce()) -> f64 {
    let (time, begin) = (processor_time(), Instant::now());
    action();
    (processor_time() - time).as_secs_f64() / begin.elapsed().as_secs_f64()
}

/// Processor time of the process.
fn processor_time() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the structure is filled by a call that cannot fail with these arguments.
    let usage = unsafe {
        assert_eq!(libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()), 0);
        usage.assume_init()
    };
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    time(usage.ru_utime) + time(usage.ru_stime)
}
