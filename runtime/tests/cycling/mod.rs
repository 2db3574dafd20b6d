//! Cycles of starts and ends of interpreters, and what they leave in the process.

use hydrozoa::memory::Usage;
use hydrozoa::{Builder, Pool};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// How many cycles are counted: `HYDROZOA_TEST_CYCLES`, or `few`.
pub fn cycles(few: u64) -> u64 {
    std::env::var("HYDROZOA_TEST_CYCLES").map_or(few, |text| text.parse().unwrap())
}

/// For one test on a busy machine.
pub fn patience() -> Duration {
    Duration::from_secs(300 + 10 * cycles(0))
}

/// What the process has, of each kind that the kernel or the C library limits.
#[derive(Clone, Copy, Debug)]
pub struct Taken {
    memory: i64,
    mappings: usize,
    descriptors: usize,
    threads: usize,
    /// The number of the next thread key: keys are given out from the lowest free number up.
    key: u32,
}

impl Taken {
    pub fn now() -> Taken {
        let entries = |path: &str| fs::read_dir(path).unwrap().count();
        let mut key = 0;
        // SAFETY: the place is valid, and the key is deleted before anybody uses it.
        unsafe {
            assert_eq!(libc::pthread_key_create(&mut key, None), 0);
            libc::pthread_key_delete(key);
        }
        Taken {
            memory: Usage::of_process().unwrap().private,
            mappings: fs::read_to_string("/proc/self/maps").unwrap().lines().count(),
            descriptors: entries("/proc/self/fd"),
            threads: entries("/proc/self/task"),
            key,
        }
    }

    /// Asserts that `cycles` have added at most `bytes` each, a MiB in all, and nothing else.
    pub fn assert_bounded(self, before: Taken, cycles: u64, bytes: i64) {
        println!("{cycles} cycles: {before:?} -> {self:?}");
        let limit = before.memory + cycles as i64 * bytes + (1 << 20);
        assert!(self.memory <= limit, "{before:?} -> {self:?}");
        // Neighbours become one mapping or two.
        assert!(self.mappings <= before.mappings + 8, "{before:?} -> {self:?}");
        assert!(self.descriptors <= before.descriptors, "{before:?} -> {self:?}");
        assert!(self.threads <= before.threads, "{before:?} -> {self:?}");
        assert!(self.key <= before.key, "{before:?} -> {self:?}");
    }
}

/// Stops the other thread, also after a failed assertion.
struct Stop<'flag>(&'flag AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` on a thread while another interpreter is asked.
pub fn while_another_serves(builder: &Builder, work: impl FnOnce() + Send) {
    let (stop, answers) = (AtomicBool::new(false), AtomicUsize::new(0));
    let server: Pool = builder.clone().build().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let session = server.acquire().unwrap();
            let code = "import zlib\ndef serve(n): return zlib.crc32(str(list(range(n))).encode())";
            let serve = session.run(code, "serve.py").unwrap().getattr("serve").unwrap();
            let right: i64 = serve.call((500,)).unwrap().extract().unwrap();
            while !stop.load(Ordering::Relaxed) {
                let answer: i64 = serve.call((500,)).unwrap().extract().unwrap();
                assert_eq!(answer, right);
                answers.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_micros(200));
            }
        });
        scope.spawn(|| {
            let _stopped = Stop(&stop);
            work();
        });
    });
    assert!(answers.load(Ordering::Relaxed) > 0);
}
