//! Crash after crash.

use super::{answers, module, replaced};
use hydrozoa::{Error, Pool};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How many crashes the soak has, if not thirty.
const CRASHES: &str = "HYDROZOA_TEST_CRASHES";

/// Crash after crash in one place of the pool, while the two others serve.
pub fn soak(pool: &Pool) {
    const KINDS: [&str; 10] = [
        "reads_nothing",
        "crashes",
        "calls_null",
        "aborts",
        "throws",
        "overflows",
        "sorts",
        "crashes_on_a_thread",
        "frees_twice",
        "breaks_malloc",
    ];
    let crashes: usize = std::env::var(CRASHES).map_or(30, |count| count.parse().unwrap());
    let (is_over, served) = (AtomicBool::new(false), AtomicUsize::new(0));
    let warm = thread::scope(|scope| {
        for index in [0, 2] {
            let (is_over, served) = (&is_over, &served);
            scope.spawn(move || {
                let session = pool.acquire_on(index).unwrap();
                let module = module(&session);
                while !is_over.load(Ordering::Relaxed) {
                    answers(&module);
                    served.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let (mut warm, mut longest) = (None, Duration::ZERO);
        for (number, kind) in KINDS.into_iter().cycle().take(crashes).enumerate() {
            {
                let session = pool.acquire_on(1).unwrap();
                let module = module(&session);
                let begin = Instant::now();
                let outcome = module.call_method("crash", (kind,)).map(drop);
                longest = longest.max(begin.elapsed());
                assert!(matches!(outcome, Err(Error::Crashed { .. })), "{kind}: {outcome:?}");
            }
            replaced(pool, number + 1);
            if number == crashes / 3 {
                warm = Some(Resources::now());
            }
        }
        is_over.store(true, Ordering::Relaxed);
        let served = served.load(Ordering::Relaxed);
        println!("{crashes} crashes, the longest {longest:?}; {served} answers");
        warm.unwrap()
    });
    thread::sleep(Duration::from_secs(1));
    let end = Resources::now();
    println!("warm {warm:?}, at the end {end:?}");
    assert!(end.threads <= warm.threads + 1, "{warm:?} {end:?}");
    assert!(end.descriptors <= warm.descriptors + 1, "{warm:?} {end:?}");
    assert!(end.mappings <= warm.mappings + 40, "{warm:?} {end:?}");
    assert!(end.memory <= warm.memory + (8 << 20) + crashes * 16 * 1024, "{warm:?} {end:?}");
}

/// Counts of the process.
#[derive(Debug)]
struct Resources {
    threads: usize,
    descriptors: usize,
    mappings: usize,
    /// Bytes of private memory.
    memory: usize,
}

impl Resources {
    fn now() -> Self {
        let count = |path: &str| std::fs::read_dir(path).unwrap().count();
        let text = |path: &str| std::fs::read_to_string(path).unwrap();
        let of = |line: &str| line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap();
        let all = text("/proc/self/smaps_rollup");
        let private = all.lines().filter(|line| line.starts_with("Private_"));
        Self {
            threads: count("/proc/self/task"),
            descriptors: count("/proc/self/fd"),
            mappings: text("/proc/self/maps").lines().count(),
            memory: private.map(of).sum::<usize>() << 10,
        }
    }
}
