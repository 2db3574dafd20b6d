//! Crash after crash in one interpreter of a pool, while three others serve.
//!
//! Rounds of crashes take turns with rounds in which the same interpreter does the same work, does not crash, and is replaced as
//! often. So the three others have the same company in both but for the crashes.

mod resources;

use hydrozoa::{Builder, Error, Object, Pool, Session};
use hydrozoa_testkit::libraries::Workshop;
use resources::{Resources, by_mapping};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::io::Write as _;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use std::{fmt, fs};

/// Of the process: longest time that anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the end of an interpreter may take.
const SETTLING: Duration = Duration::from_secs(8);

/// The interpreter that crashes, and those that serve.
const PLACE: usize = 1;
const SERVERS: [usize; 3] = [0, 2, 3];

/// How long a server pauses between two requests, and the crashing interpreter before each crash.
const PAUSE: Duration = Duration::from_millis(4);

/// Crashes of a round, at most.
const ROUND: usize = 10;

/// So many crashes that one can tell rare delays.
pub const MANY: usize = 200;

/// Rounds whose latencies do not count, of each kind.
const FIRST: usize = 1;

const KINDS: [&str; 24] = [
    "reads_nothing",
    "crashes",
    "overflows",
    "aborts",
    "throws",
    "calls_null",
    "jumps",
    "divides",
    "illegal",
    "asserts",
    "terminates",
    "sorts",
    "is_out_of_range",
    "calls_pure",
    "holds_a_mutex",
    "crashes_on_a_thread",
    "crashes_on_a_thread_of_c",
    "bus",
    "crashes_on_a_thread_of_python",
    "crashes_beside_others",
    "frees_twice",
    "deletes_twice",
    "overflows_a_long_block",
    "breaks_malloc",
];

/// Kinds of crashes that numpy has, and torch.
const OF_PACKAGES: [&str; 4] =
    ["crashes_in_an_array", "crashes_in_an_array", "crashes_in_a_tensor", "crashes_in_a_tensor"];

/// The packages that the interpreters use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
pub enum Packages {
    None,
    Numpy,
    Torch,
}

/// The promises for them.
#[derive(Debug)]
pub struct Limits {
    /// Bytes of anonymous memory that a crash may leave.
    pub bytes: i64,
    /// How long the pool lacks an interpreter.
    pub whole: Duration,
}

/// The measurements.
#[derive(Debug)]
pub struct Measured {
    pub crashes: usize,
    /// Latencies of the servers in rounds without crashes, and with, in ascending order.
    latencies: [Vec<Duration>; 2],
    /// From each crash until the pool was whole, in ascending order.
    whole: Vec<Duration>,
    /// The process's resources after the first quarter, and at the end.
    resources: [Resources; 2],
    /// Anonymous bytes that a replacement has left, and a crash.
    pub left: [i64; 2],
    /// Where anonymous memory has grown.
    growth: Vec<String>,
}

/// How many crashes: `HYDROZOA_TEST_CRASHES`, or `few`.
pub fn crashes(few: usize) -> usize {
    std::env::var("HYDROZOA_TEST_CRASHES").map_or(few, |count| count.parse().unwrap())
}

/// Whether a server's latencies belong to rounds with crashes (1), without (0), or do not count.
static PHASE: AtomicUsize = AtomicUsize::new(OVER);
/// How many servers have answered.
static SERVING: AtomicUsize = AtomicUsize::new(0);
const IGNORED: usize = 2;
const OVER: usize = 3;

/// Has `count` crashes of random kinds in an interpreter. The process is made for it.
pub fn endure(builder: &Builder, packages: Packages, count: usize) -> Measured {
    // SAFETY: core files have no use here.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &libc::rlimit { rlim_cur: 0, rlim_max: 0 }) };
    let workshop = Workshop::new("enduring");
    let flags = ["-fno-stack-protector", "-fno-optimize-sibling-calls", "-fopenmp"];
    let source = include_str!("../containing/library.cc");
    let library = workshop.build("enduring++.so", source, &flags);
    let pool = builder.clone().interpreters(4).contain_crashes(true).build().unwrap();
    let crashing = Crashing {
        pool: &pool,
        packages,
        code: format!("LIBRARY = {library:?}\n{}", include_str!("crashing.py")),
    };
    PHASE.store(IGNORED, Ordering::SeqCst);
    let latencies = [const { Mutex::new(Vec::new()) }; 2];
    let mut measured = thread::scope(|scope| {
        for index in SERVERS {
            let (pool, latencies) = (&pool, &latencies);
            scope.spawn(move || serve(&pool.acquire_on(index).unwrap(), packages, latencies));
        }
        let _end = End;
        crashing.rounds(count)
    });
    measured.latencies = latencies.map(|all| {
        let mut all = all.into_inner().unwrap();
        all.sort();
        all
    });
    afterwards(&workshop);
    pool.close(PATIENCE).unwrap();
    assert_eq!(hydrozoa::wait_for_ends(PATIENCE), 0);
    measured
}

/// Asks an interpreter until all is over.
fn serve(session: &Session, packages: Packages, latencies: &[Mutex<Vec<Duration>>; 2]) {
    let code = format!("packages = {}\n{}", packages as usize, include_str!("serving.py"));
    let module = session.run(&code, "serving.py").unwrap();
    SERVING.fetch_add(1, Ordering::SeqCst);
    for number in (500..).map(|n| 500 + n % 50) {
        let phase = PHASE.load(Ordering::SeqCst);
        if phase == OVER {
            return;
        }
        let begin = Instant::now();
        let answer: i64 = module.call_method("answer", (number,)).unwrap().extract().unwrap();
        let latency = begin.elapsed();
        assert_eq!(answer, (1 + packages as i64) * (number * (number - 1) / 2));
        if phase < IGNORED && phase == PHASE.load(Ordering::SeqCst) {
            latencies[phase].lock().unwrap().push(latency);
        }
        thread::sleep(PAUSE);
    }
}

struct Crashing<'p> {
    pool: &'p Pool,
    packages: Packages,
    code: String,
}

impl Crashing<'_> {
    fn rounds(&self, count: usize) -> Measured {
        let of_a_round = (count / 4).clamp(1, ROUND);
        let rounds = count.div_ceil(of_a_round).max(2);
        // They do not count for what is left.
        let warm_rounds = FIRST + rounds / 4;
        let kinds = [&KINDS[..], &OF_PACKAGES[..2 * self.packages as usize]].concat();
        let (mut random, mut whole) = (fastrand::Rng::new(), Vec::new());
        let (mut warm, mut left) = (None, [0; 2]);
        while SERVING.load(Ordering::SeqCst) < SERVERS.len() {
            thread::sleep(PAUSE);
        }
        let mut before = Resources::now();
        let threads = before.threads;
        let mut mappings = None;
        for round in 0..2 * (rounds + FIRST) {
            let phase = round % 2;
            PHASE.store(if round / 2 < FIRST { IGNORED } else { phase }, Ordering::SeqCst);
            for _ in 0..of_a_round {
                match phase {
                    0 => self.replace(),
                    _ => whole.push(self.crash(kinds[random.usize(..kinds.len())])),
                }
            }
            PHASE.store(IGNORED, Ordering::SeqCst);
            settle(threads);
            let now = Resources::now();
            println!("round {round}, {}: {now:?}", ["replaced", "crashed"][phase]);
            if round / 2 >= warm_rounds {
                left[phase] += now.memory as i64 - before.memory as i64;
            } else if phase == 1 {
                (warm, mappings) = (Some(now), Some(by_mapping()));
            }
            before = now;
        }
        let each = ((rounds + FIRST - warm_rounds) * of_a_round) as i64;
        whole.sort();
        Measured {
            crashes: rounds * of_a_round,
            latencies: [Vec::new(), Vec::new()],
            whole,
            resources: [warm.unwrap(), before],
            left: left.map(|bytes| bytes / each),
            growth: growth(&mappings.unwrap(), each),
        }
    }

    fn module<'s>(&self, session: &'s Session) -> Object<'s> {
        let module = session.run(&self.code, "crashing.py").unwrap();
        let works = module.call_method("works", (self.packages as i64,)).unwrap();
        assert_eq!(works.extract::<i64>().unwrap(), 7);
        thread::sleep(PAUSE);
        module
    }

    /// The company of the servers in rounds without crashes.
    fn replace(&self) {
        drop(self.module(&self.pool.acquire_on(PLACE).unwrap()));
        let replaced = self.pool.replace(PLACE).unwrap();
        replaced.close(PATIENCE).unwrap();
    }

    /// A crash. Returns how long the pool lacked an interpreter.
    fn crash(&self, kind: &str) -> Duration {
        let generation = self.pool.interpreters()[PLACE].generation();
        let begin = {
            let session = self.pool.acquire_on(PLACE).unwrap();
            let outcome = self.module(&session).call_method("crash", (kind,)).map(drop);
            assert!(matches!(outcome, Err(Error::Crashed { .. })), "{kind}: {outcome:?}");
            Instant::now()
        };
        while self.pool.interpreters()[PLACE].generation() == generation {
            assert!(begin.elapsed() < PATIENCE, "{kind}");
            thread::sleep(Duration::from_micros(200));
        }
        begin.elapsed()
    }
}

/// Waits until ended interpreters have given back what they had: there are as many threads as before.
fn settle(threads: usize) {
    let begin = Instant::now();
    while Resources::now().threads > threads && begin.elapsed() < SETTLING {
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(Duration::from_millis(50));
}

/// Ends the servers, also after a failed assertion.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        PHASE.store(OVER, Ordering::SeqCst);
    }
}

/// Where anonymous memory has grown by more than 4 KiB for each crash.
fn growth(before: &BTreeMap<String, i64>, each: i64) -> Vec<String> {
    let more = |(name, bytes): (String, i64)| {
        let more = (bytes - before.get(&name).copied().unwrap_or_default()) / each;
        (more > 4 << 10).then(|| format!("{more} bytes for each crash: {name}"))
    };
    by_mapping().into_iter().filter_map(more).collect()
}

/// Does things that need the locks of the process.
fn afterwards(workshop: &Workshop) {
    assert!(Command::new("true").status().unwrap().success());
    let library = workshop.build("new.so", "int seven(void) { return 7; }", &[]);
    let path = CString::new(library.to_str().unwrap()).unwrap();
    // SAFETY: the names are valid, and the function has this form. The child ends at once.
    unsafe {
        assert_eq!(libc::printf(c"%s %d\n".as_ptr(), c"printf still prints".as_ptr(), 1), 22);
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
        assert!(!handle.is_null());
        let seven = libc::dlsym(handle, c"seven".as_ptr());
        assert_eq!(std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> i32>(seven)(), 7);
        let child = libc::fork();
        if child == 0 {
            libc::_exit(7);
        }
        let mut status = 0;
        assert_eq!(libc::waitpid(child, &mut status, 0), child);
        assert_eq!(libc::WEXITSTATUS(status), 7);
    }
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    sorted[(sorted.len() - 1) * percent / 100]
}

impl Measured {
    /// The servers' 99th percentile with crashes, for one without.
    pub fn p99(&self) -> f64 {
        let [without, with] = self.latencies.each_ref().map(|all| percentile(all, 99));
        with.as_secs_f64() / without.as_secs_f64()
    }

    /// Asserts what was promised, and tells all.
    #[track_caller]
    pub fn assert_within(&self, limits: &Limits) {
        let [warm, end] = self.resources;
        tell(&format!("{self}"));
        let whole = percentile(&self.whole, if self.crashes < MANY { 50 } else { 100 });
        assert!(whole < limits.whole, "{whole:?}, {limits:?}");
        // A quarter of a MiB of noise, for few crashes.
        let noise = (4 << 20) / self.crashes as i64;
        assert!(self.left[1] <= limits.bytes + noise, "{limits:?}, {:?}", self.left);
        assert!(
            end.threads <= warm.threads && end.descriptors <= warm.descriptors,
            "{warm:?} {end:?}"
        );
        assert!(end.mappings <= warm.mappings + 16, "{warm:?} {end:?}");
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [warm, end] = self.resources;
        writeln!(formatter, "{} crashes", self.crashes)?;
        for (name, all) in ["replaced", "crashed"].into_iter().zip(&self.latencies) {
            let at = |percent| percentile(all, percent);
            let (median, high) = (at(50), at(99));
            writeln!(formatter, "  {name}: {} answers, p50 {median:?}, p99 {high:?}", all.len())?;
        }
        let at = |percent| percentile(&self.whole, percent);
        writeln!(formatter, "  p99 is {:.2} of that without crashes", self.p99())?;
        writeln!(
            formatter,
            "  the pool is whole after {:?} (p50), {:?} (p99), {:?} (longest)",
            at(50),
            at(99),
            at(100)
        )?;
        writeln!(
            formatter,
            "  a crash leaves {} bytes, a replacement {}",
            self.left[1], self.left[0]
        )?;
        writeln!(formatter, "  {warm:?}\n  -> {end:?}")?;
        self.growth.iter().try_for_each(|line| writeln!(formatter, "  {line}"))
    }
}

/// Prints a line, and adds it to the file that `HYDROZOA_TEST_TABLE` names.
fn tell(text: &str) {
    println!("{text}");
    if let Some(path) = std::env::var_os("HYDROZOA_TEST_TABLE") {
        let mut file = fs::File::options().create(true).append(true).open(path).unwrap();
        writeln!(file, "{text}").unwrap();
    }
}
