//! The process in which faults are injected: one interpreter has them, and two others answer.

use super::fault;
use crate::pythons::pythons;
use hydrozoa::{Error, Pool, Result};
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Variables of the process: the work, the number of faults, and the seed of their moments.
pub const WORK: &str = "HYDROZOA_TEST_INJECTED";
pub const COUNT: &str = "HYDROZOA_TEST_INJECTED_COUNT";
pub const SEED: &str = "HYDROZOA_TEST_INJECTED_SEED";
pub const VENV: &str = "HYDROZOA_TEST_INJECTED_VENV";

/// The interpreter that has the faults, and those that answer.
const PLACE: usize = 1;
const OTHERS: [usize; 2] = [0, 2];

/// How often each of the others answers between two faults.
const ANSWERS: usize = 2;

/// The stages that a fault goes through, each of which is told. A process that tells nothing for long hangs.
fn tell(stage: &str) {
    println!("\n@{stage}");
}

/// Injects as many faults as the environment says, if it does.
pub fn run() {
    let Ok(work) = std::env::var(WORK) else { return };
    // SAFETY: core files have no use here.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 }) };
    let number = |name| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let (count, seed) = (number(COUNT), number(SEED));
    fault::prepare();
    let builder = Pool::builder().interpreters(3).contain_crashes(true);
    let builder = match std::env::var_os(VENV) {
        Some(venv) => builder.venv(venv),
        None => builder.python(pythons().values().next().unwrap()),
    };
    let pool = builder.build().unwrap();
    let target = Target::measured(&pool, &work);
    tell(&format!("ready: {:?} to the first answer", target.first));
    let others = Others::default();
    thread::scope(|scope| {
        for (index, count) in OTHERS.into_iter().zip(&others.counts) {
            let (pool, others) = (&pool, &others);
            scope.spawn(move || others.answer(pool, index, count));
        }
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..count {
            target.round(&pool, &mut random);
            others.wait();
            program_is_whole();
            tell("whole");
        }
        others.is_over.store(true, Ordering::Relaxed);
    });
    let threads = fs::read_dir("/proc/self/task").unwrap().count();
    tell(&format!("over: {threads} threads"));
    pool.close(Duration::from_secs(20)).unwrap();
    assert_eq!(hydrozoa::wait_for_ends(Duration::from_secs(20)), 0);
    tell("ended");
}

/// Asserts that the program's own threads can do what needs a lock of the process.
fn program_is_whole() {
    let text = thread::spawn(|| format!("{:?}", vec![7; 2000])).join().unwrap();
    assert_eq!(text.len(), 6000);
    // SAFETY: the names are valid, and the stream list is the C library's.
    unsafe {
        let library = libc::dlopen(c"libm.so.6".as_ptr(), libc::RTLD_NOW);
        assert!(!library.is_null());
        libc::dlclose(library);
        libc::fflush(std::ptr::null_mut());
        let mut when = std::mem::zeroed();
        libc::localtime_r(&0, &mut when);
    }
}

/// The interpreters that go on.
#[derive(Default)]
struct Others {
    counts: [AtomicUsize; OTHERS.len()],
    is_over: AtomicBool,
}

impl Others {
    fn answer(&self, pool: &Pool, index: usize, count: &AtomicUsize) {
        let session = pool.acquire_on(index).unwrap();
        let module = session.run(include_str!("other.py"), "other.py").unwrap();
        while !self.is_over.load(Ordering::Relaxed) {
            let answer: i64 = module.call_method("answer", ()).unwrap().extract().unwrap();
            if answer != 332_833_500 + 44_850 {
                tell(&format!("wrong: interpreter {index} answers {answer}"));
            }
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Waits until each of them has answered some times from now on.
    fn wait(&self) {
        let begin = self.counts.each_ref().map(|count| count.load(Ordering::Relaxed));
        while self
            .counts
            .iter()
            .zip(begin)
            .any(|(now, begin)| now.load(Ordering::Relaxed) < begin + ANSWERS)
        {
            thread::sleep(Duration::from_micros(200));
        }
    }
}

/// The code of the work.
fn code() -> String {
    let (count, address) = (fault::INSIDE.len(), fault::INSIDE.as_ptr().addr());
    format!("PLACES, ADDRESS = {count}, {address}\n{}", include_str!("work.py"))
}

/// The work that is interrupted.
struct Target {
    work: String,
    right: String,
    /// How long its first answer takes, imports included.
    first: Duration,
}

impl Target {
    fn measured(pool: &Pool, work: &str) -> Self {
        let session = pool.acquire_on(PLACE).unwrap();
        let module = session.run(&code(), "work.py").unwrap();
        let begin = Instant::now();
        let right = module.call_method(work, (1,)).unwrap().extract().unwrap();
        Self { work: work.to_owned(), right, first: begin.elapsed() }
    }

    /// Injects a fault, and waits for its consequences.
    fn round(&self, pool: &Pool, random: &mut fastrand::Rng) {
        let generation = pool.interpreters()[PLACE].generation();
        fault::INSIDE.iter().for_each(|place| place.store(0, Ordering::SeqCst));
        let begins = AtomicBool::new(false);
        let outcome = thread::scope(|scope| {
            let victim = scope.spawn(|| self.work_for_ever(pool, &begins));
            while !begins.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            // Half of the faults come during imports, and half later.
            let moment = self.first.mul_f64(2.0 * random.f64());
            thread::sleep(moment);
            let kind = random.usize(..100);
            tell(&format!("fault: {} after {moment:?}", fault::name(kind)));
            fault::inject(random, kind);
            victim.join().unwrap()
        });
        match outcome {
            Err(Error::Crashed { report }) if report.contains("(index 1)") => tell("home"),
            other => tell(&format!("wrong: the call ends with {other:?}")),
        }
        let begin = Instant::now();
        while pool.interpreters()[PLACE].generation() == generation {
            thread::sleep(Duration::from_micros(200));
        }
        tell(&format!("replaced: {:?}", begin.elapsed()));
    }

    fn work_for_ever(&self, pool: &Pool, begins: &AtomicBool) -> Result<()> {
        let session = pool.acquire_on(PLACE)?;
        let module = session.run(&code(), "work.py")?;
        let work = module.getattr("for_ever")?;
        begins.store(true, Ordering::Relaxed);
        work.call((&*self.work, &*self.right)).map(drop)
    }
}
