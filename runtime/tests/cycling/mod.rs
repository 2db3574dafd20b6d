//! Cycles of starts and ends of interpreters, and what they leave in the process.

use hydrozoa::memory::Usage;
use hydrozoa::{Builder, Pool};
use std::fs;
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How many cycles are counted: `HYDROZOA_TEST_CYCLES`, or `few`.
pub fn cycles(few: u64) -> u64 {
    std::env::var("HYDROZOA_TEST_CYCLES").map_or(few, |text| text.parse().unwrap())
}

/// How many cycles run before those that are counted: `few`, or 50 where `HYDROZOA_TEST_CYCLES` asks for more than these.
#[allow(dead_code, reason = "not every test binary counts cycles in this way")]
pub fn first(few: u64) -> u64 {
    if cycles(0) > 50 { 50 } else { few }
}

/// For one test on a busy machine.
pub fn patience() -> Duration {
    Duration::from_secs(300 + 10 * cycles(0))
}

/// The resources of the process, of each kind that the kernel or the C library limits.
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
    #[allow(dead_code, reason = "not every test binary counts cycles in this way")]
    pub fn assert_bounded(self, before: Taken, cycles: u64, bytes: i64) {
        self.assert_within(before, cycles, Each { bytes, mappings: 0 });
    }

    /// Waits until no threads are left but those that there were `before`.
    #[allow(dead_code, reason = "not every test binary counts cycles in this way")]
    pub fn wait_for_threads(before: Taken) {
        let begin = Instant::now();
        while Taken::now().threads > before.threads {
            assert!(begin.elapsed() < Duration::from_secs(20), "{before:?} -> {:?}", Taken::now());
            thread::sleep(Duration::from_millis(1));
        }
    }

    fn is_within(self, before: Taken, cycles: u64, each: Each) -> bool {
        self.memory <= before.memory + cycles as i64 * each.bytes + (1 << 20)
            // Neighbours become one mapping or two.
            && self.mappings <= before.mappings + cycles as usize * each.mappings + 8
            && self.descriptors <= before.descriptors
            && self.threads <= before.threads
            && self.key <= before.key
    }

    fn assert_within(self, before: Taken, cycles: u64, each: Each) {
        let bytes = (self.memory - before.memory) / cycles.max(1) as i64;
        println!("{cycles} cycles: {before:?} -> {self:?}, {bytes} bytes a cycle");
        assert!(self.is_within(before, cycles, each), "{before:?} -> {self:?}");
    }
}

/// The most that a cycle may leave behind.
#[derive(Clone, Copy)]
pub struct Each {
    pub bytes: i64,
    pub mappings: usize,
}

/// Runs `cycle` `first` times and then `count` times, and asserts what each of the latter leaves, as
/// [`Taken::assert_bounded`] does. Prints what the process has after each twentieth part. Adds a line for each hundredth part to
/// the file that `HYDROZOA_TEST_CYCLES_CSV` names, as `cargo xtask lab cycles` reads it.
#[allow(dead_code, reason = "not every test binary counts cycles in this way")]
pub fn assert_cycles(first: u64, count: u64, each: Each, mut cycle: impl FnMut()) {
    (0..first).for_each(|_| cycle());
    // Its file is a descriptor.
    let record = Record::open();
    let before = Taken::now();
    record.add(0, before);
    println!("after the first {first}: {before:?}");
    for done in 1..=count {
        cycle();
        if done.is_multiple_of(count.div_ceil(100)) {
            record.add(done, Taken::now());
        }
        if done.is_multiple_of(count.div_ceil(20)) {
            println!("after {done} more: {:?}", Taken::now());
        }
    }
    Taken::now().assert_within(before, count, each);
}

/// Lines of the cycles of one call of [`assert_cycles`], if somebody wants them.
struct Record {
    file: Option<fs::File>,
    /// Which call of the process it is.
    series: usize,
}

impl Record {
    fn open() -> Record {
        static SERIES: AtomicUsize = AtomicUsize::new(0);
        let path = std::env::var_os("HYDROZOA_TEST_CYCLES_CSV");
        let open = |path| fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        Record { file: path.map(open), series: SERIES.fetch_add(1, Ordering::Relaxed) }
    }

    fn add(&self, cycle: u64, taken: Taken) {
        let Some(mut file) = self.file.as_ref() else { return };
        let Taken { memory, mappings, descriptors, threads, key } = taken;
        let series = self.series;
        writeln!(file, "{series},{cycle},{memory},{mappings},{descriptors},{threads},{key}")
            .unwrap();
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
