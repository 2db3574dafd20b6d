//! Everything that may happen to a pool, at random and at once: is anything lost, wrong or stuck, and does memory stay bounded?

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hydrozoa::memory::Usage;
use hydrozoa::movable::shared_memory;
use hydrozoa::{Error, Movable, Object, Pool, Session};
use hydrozoa_measure::samples::percentile;
use hydrozoa_measure::trend::Trend;

use crate::join;
use crate::random::Random;

const INTERPRETERS: usize = 4;
const THREADS: usize = 8;
/// What Python code of an interpreter may take.
const CEILING: usize = 512 << 20;
/// How many samples one turn of one thread may take before it counts as a deadlock. There is one a second. On a machine that
/// gives this process little time, the thread that samples is late as the others are, and no turn counts as a deadlock for that.
const PATIENCE: usize = 120;
/// Shorter runs have no trend: heaps are still filling.
const TREND_FROM: f64 = 300.0;
/// Growth in KiB for each interpreter that has ended which is attributed to the allocators.
const NEGLIGIBLE: f64 = 50.0;

#[derive(clap::Args)]
pub struct Options {
    /// The virtual environment with numpy
    #[arg(long)]
    venv: std::path::PathBuf,
    /// How long, in seconds
    #[arg(long, default_value_t = 600.0)]
    seconds: f64,
}

/// The functions that turns call.
const MODULE: &str = "
import ctypes, json, subprocess, threading, time
import numpy

def work(n):
    matrix = numpy.arange(n * n, dtype=float).reshape(n, n)
    return int((matrix + matrix.T).sum()) + len(json.dumps(list(range(n))))

def fail(n):
    raise ValueError(f'fails with {n}')

def loop():
    while True: pass

def sleep(seconds):
    time.sleep(seconds)

def keep_the_gil(microseconds):
    ctypes.PyDLL(None).usleep(microseconds)

def eat():
    return len([bytearray(1 << 20) for _ in range(2000)])

def run():
    return subprocess.run(['true']).returncode

def start_threads(n):
    done = []
    threads = [threading.Thread(target=done.append, args=(i,)) for i in range(n)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    return sum(done)
";

/// What `work(n)` returns.
fn right_answer(n: i64) -> i64 {
    let cells = n * n;
    let digits: i64 = (0..n).map(|i| i.to_string().len() as i64).sum();
    cells * (cells - 1) + digits + 2 * n
}

#[derive(Default)]
struct Turns {
    of: [AtomicU64; THREADS],
    counts: Mutex<BTreeMap<&'static str, u64>>,
    /// Milliseconds from an interrupt, or a deadline, to the error.
    interrupts: Mutex<Vec<f64>>,
    deadlines: Mutex<Vec<f64>>,
    stop: AtomicBool,
    ended: AtomicU64,
    eaters: Eaters,
}

/// Calls that take all memory that an interpreter may have: those that have begun and those under way, by the interpreter's name.
/// Another thread in the same interpreter meets the ceiling, too, until the memory is free again.
#[derive(Default)]
struct Eaters(Mutex<BTreeMap<String, (u64, u64)>>);

impl Eaters {
    fn of(&self, interpreter: &str) -> (u64, u64) {
        lock(&self.0).get(interpreter).copied().unwrap_or_default()
    }

    /// Runs such a call.
    fn during<T>(&self, interpreter: &str, call: impl FnOnce() -> T) -> T {
        let change = |by: i64| {
            let mut all = lock(&self.0);
            let (begun, active) = all.entry(interpreter.to_owned()).or_default();
            *begun += u64::from(by > 0);
            *active = active.wrapping_add_signed(by);
        };
        change(1);
        let outcome = call();
        change(-1);
        outcome
    }
}

/// Signals that the program's handler has had.
static SIGNALS: AtomicU64 = AtomicU64::new(0);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn run(options: &Options) -> Result<()> {
    install_handler()?;
    let stuck = Arc::new(AtomicU64::new(0));
    let reported = stuck.clone();
    let pool = Pool::builder()
        .interpreters(INTERPRETERS)
        .venv(&options.venv)
        .memory_limit(CEILING)
        .replace_stuck(true)
        .on_stuck(move |_| {
            reported.fetch_add(1, Ordering::Relaxed);
        })
        .build()?;
    pool.register_module("mixed", MODULE)?;
    let slots: Vec<Mutex<Option<Movable>>> = (0..8).map(|_| Mutex::default()).collect();
    let turns = Turns::default();
    let points = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (pool, slots, turns) = (&pool, &slots, &turns);
                scope.spawn(move || {
                    let mut random = Random(thread as u64 + 1);
                    while !turns.stop.load(Ordering::Relaxed) {
                        let done = turn(pool, slots, turns, &mut random).inspect_err(|error| {
                            turns.stop.store(true, Ordering::Relaxed);
                            let traceback = error.downcast_ref().and_then(Error::traceback);
                            eprintln!(
                                "thread {thread}: {error}\n{}",
                                traceback.unwrap_or_default()
                            );
                        })?;
                        *lock(&turns.counts).entry(done).or_default() += 1;
                        turns.of[thread].fetch_add(1, Ordering::Relaxed);
                    }
                    Ok::<_, anyhow::Error>(())
                })
            })
            .collect();
        let points = watch(options, &turns);
        turns.stop.store(true, Ordering::Relaxed);
        join(threads)?;
        points
    })?;
    drop(slots);
    pool.close(Duration::from_secs(60)).context("at the end")?;
    report(&turns, &points, stuck.load(Ordering::Relaxed))
}

extern "C" fn count_signal(_: libc::c_int) {
    SIGNALS.fetch_add(1, Ordering::Relaxed);
}

/// The program handles a signal of its own.
fn install_handler() -> Result<()> {
    let handler = count_signal as extern "C" fn(libc::c_int) as libc::sighandler_t;
    // SAFETY: the handler does what a handler may do (signal-safety(7)).
    let before = unsafe { libc::signal(libc::SIGUSR2, handler) };
    ensure!(before != libc::SIG_ERR, "SIGUSR2 cannot be handled");
    Ok(())
}

/// One thing that may happen, and its name.
fn turn(
    pool: &Pool,
    slots: &[Mutex<Option<Movable>>],
    turns: &Turns,
    random: &mut Random,
) -> Result<&'static str> {
    let session = pool.acquire()?;
    let name = session.interpreter().name().to_owned();
    let before = turns.eaters.of(&name);
    act(pool, session, slots, turns, random).or_else(|error| {
        let is_memory = matches!(
            error.downcast_ref(),
            Some(Error::Python { type_name, .. }) if type_name == "MemoryError"
        );
        let had_an_eater = before.1 > 0 || turns.eaters.of(&name).0 > before.0;
        if is_memory && had_an_eater { Ok("neighbours at the ceiling") } else { Err(error) }
    })
}

fn act(
    pool: &Pool,
    session: Session,
    slots: &[Mutex<Option<Movable>>],
    turns: &Turns,
    random: &mut Random,
) -> Result<&'static str> {
    let mixed = session.import("mixed")?;
    Ok(match random.below(200) {
        0..80 => {
            let n = random.below(60) as i64 + 1;
            let answer: i64 = mixed.call_method("work", (n,))?.extract()?;
            ensure!(answer == right_answer(n), "work({n}) is {answer}");
            "calls"
        }
        80..105 => {
            let n = random.below(1000) as i64;
            let Err(Error::Python { type_name, message, .. }) = mixed.call_method("fail", (n,))
            else {
                bail!("fail({n}) has not raised")
            };
            let is_right = type_name == "ValueError" && message == format!("fails with {n}");
            ensure!(is_right, "{type_name}: {message}");
            "exceptions"
        }
        105..120 => interrupt(&session, &mixed, turns)?,
        120..135 => deadline(&session, &mixed, turns, random)?,
        135..138 => blocks(&session, &mixed, random)?,
        138..141 => {
            let eat = || mixed.call_method("eat", ()).map(drop);
            let outcome = turns.eaters.during(session.interpreter().name(), eat);
            let Err(Error::Python { type_name, .. }) = outcome else {
                bail!("there is no ceiling")
            };
            ensure!(type_name == "MemoryError", "{type_name} at the ceiling");
            "ceilings"
        }
        141..165 => movable(&session, &slots[random.below(slots.len())], random)?,
        165..173 => {
            let status: i64 = mixed.call_method("run", ())?.extract()?;
            ensure!(status == 0, "a child has status {status}");
            "children"
        }
        173..180 => {
            let sum: i64 = mixed.call_method("start_threads", (5,))?.extract()?;
            ensure!(sum == 10, "five threads have left {sum}");
            "threads of Python"
        }
        180..190 => {
            let before = SIGNALS.load(Ordering::Relaxed);
            // SAFETY: the signal is handled.
            ensure!(unsafe { libc::raise(libc::SIGUSR2) } == 0, "a signal cannot be sent");
            ensure!(SIGNALS.load(Ordering::Relaxed) > before, "the handler was not called");
            "signals"
        }
        190..194 => {
            drop(mixed);
            drop(session);
            // Another thread may have made the pool smaller.
            let count = pool.interpreters().len();
            match pool.replace(random.below(count)) {
                Ok(_) | Err(Error::NoSuchInterpreter { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            turns.ended.fetch_add(1, Ordering::Relaxed);
            "replacements"
        }
        194..196 => {
            drop(mixed);
            drop(session);
            pool.resize(INTERPRETERS - 1)?;
            pool.resize(INTERPRETERS)?;
            turns.ended.fetch_add(1, Ordering::Relaxed);
            "sizes"
        }
        _ => {
            let code = "import sqlite3, decimal, ctypes, csv\nanswer = str(decimal.Decimal(1) / 3)";
            let answer = session.run(code, "imports.py")?.getattr("answer")?;
            ensure!(
                answer.extract::<String>()? == format!("0.{}", "3".repeat(28)),
                "a wrong quotient"
            );
            "imports"
        }
    })
}

fn interrupt(session: &Session, mixed: &Object<'_>, turns: &Turns) -> Result<&'static str> {
    let handle = session.interrupt_handle();
    let (outcome, sent) = thread::scope(|scope| {
        let interrupter = scope.spawn(move || {
            thread::sleep(Duration::from_millis(5));
            while !handle.interrupt() {
                thread::yield_now();
            }
            Instant::now()
        });
        let outcome = mixed.call_method("loop", ()).map(drop);
        let now = Instant::now();
        (outcome, interrupter.join().map(|sent| now - sent))
    });
    ensure!(matches!(outcome, Err(Error::Interrupted { .. })), "an interrupt became {outcome:?}");
    let Ok(took) = sent else { bail!("the interrupter panicked") };
    lock(&turns.interrupts).push(took.as_secs_f64() * 1000.0);
    Ok("interrupts")
}

fn deadline(
    session: &Session,
    mixed: &Object<'_>,
    turns: &Turns,
    random: &mut Random,
) -> Result<&'static str> {
    let limit = Duration::from_millis(20 + random.below(60) as u64);
    let begin = Instant::now();
    let outcome = session.with_deadline(limit, || mixed.call_method("loop", ()).map(drop));
    ensure!(matches!(outcome, Err(Error::Deadline { .. })), "a deadline became {outcome:?}");
    lock(&turns.deadlines).push((begin.elapsed() - limit).as_secs_f64() * 1000.0);
    Ok("deadlines")
}

/// A call that no interrupt reaches at once: it is reported, and its interpreter replaced.
fn blocks(session: &Session, mixed: &Object<'_>, random: &mut Random) -> Result<&'static str> {
    let limit = Duration::from_millis(50);
    let (outcome, what) = match random.below(2) {
        0 => {
            let call = || mixed.call_method("sleep", (0.4,)).map(drop);
            (session.with_deadline(limit, call), "sleeps beyond a deadline")
        }
        _ => {
            let call = || mixed.call_method("keep_the_gil", (400_000,)).map(drop);
            (session.with_deadline(limit, call), "native calls beyond a deadline")
        }
    };
    ensure!(matches!(outcome, Ok(()) | Err(Error::Deadline { .. })), "{what} became {outcome:?}");
    Ok(what)
}

fn movable(
    session: &Session,
    slot: &Mutex<Option<Movable>>,
    random: &mut Random,
) -> Result<&'static str> {
    let held = lock(slot).clone();
    match (held, random.below(8)) {
        (Some(movable), 1..) => {
            let n = random.below(1000) as i64;
            let answer: i64 = movable.to_object(session)?.call((n,))?.extract()?;
            ensure!(answer % 1000 == n, "a movable returned {answer} for {n}");
            Ok("calls of movables")
        }
        (Some(_), _) => {
            let taken = lock(slot).take();
            drop(taken);
            Ok("movables dropped")
        }
        (None, _) => {
            let value = random.below(100) * 1000;
            let code = format!(
                "import functools, operator\nobject = functools.partial(operator.add, {value})"
            );
            let object = session.run(&code, "make.py")?.getattr("object")?;
            *lock(slot) = Some(session.create_movable(&object)?);
            Ok("movables made")
        }
    }
}

/// Samples private memory once a second, over minutes. Ends the process if a thread stands still.
fn watch(options: &Options, turns: &Turns) -> Result<Vec<(f64, f64)>> {
    let begin = Instant::now();
    let mut points = Vec::new();
    let mut seen = [(u64::MAX, begin, 0); THREADS];
    while begin.elapsed().as_secs_f64() < options.seconds && !turns.stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_secs(1));
        let minutes = begin.elapsed().as_secs_f64() / 60.0;
        points.push((minutes, Usage::of_process()?.private as f64 / 1024.0));
        if points.len() % 30 == 0 {
            let (kib, ended) = (points[points.len() - 1].1, turns.ended.load(Ordering::Relaxed));
            let all: u64 = lock(&turns.counts).values().sum();
            println!(
                "{minutes:5.1} min: {all} turns, {ended} replaced, private memory {:.1} MiB",
                kib / 1024.0
            );
        }
        for (thread, (last, since, sample)) in seen.iter_mut().enumerate() {
            let now = turns.of[thread].load(Ordering::Relaxed);
            if now != *last {
                (*last, *since, *sample) = (now, Instant::now(), points.len());
            } else if points.len() - *sample > PATIENCE {
                // The thread cannot be joined: it waits for something that never happens.
                eprintln!(
                    "error: deadlock: thread {thread} has stood still for {:.0?} and {PATIENCE} samples after {now} turns",
                    since.elapsed()
                );
                std::process::exit(1);
            }
        }
    }
    Ok(points)
}

fn report(turns: &Turns, points: &[(f64, f64)], stuck: u64) -> Result<()> {
    let counts = lock(&turns.counts);
    println!("{THREADS} threads on {INTERPRETERS} interpreters, every result right:");
    for (what, count) in counts.iter() {
        println!("{count:>9} {what}");
    }
    println!("{stuck:>9} stuck calls reported, and their interpreters replaced");
    for (what, times) in
        [("an interrupt", &turns.interrupts), ("the end of a deadline", &turns.deadlines)]
    {
        let times = lock(times);
        ensure!(!times.is_empty(), "the run was too short");
        let [median, late] = [0.5, 0.99].map(|quantile| percentile(&times, quantile));
        println!("milliseconds from {what} to the error: median {median:.1}, p99 {late:.1}");
    }
    let shared = shared_memory();
    ensure!(shared.ranges == 0, "shared memory was not freed: {shared:?}");
    if points.last().is_none_or(|(minutes, _)| minutes * 60.0 < TREND_FROM) {
        return Ok(());
    }
    let trend = Trend::of(&points[points.len() / 5..]).context("a run this long has a trend")?;
    let minutes = points.last().map_or(f64::NAN, |(minutes, _)| *minutes);
    let ended = turns.ended.load(Ordering::Relaxed) + stuck;
    let each = trend.slope * minutes / ended.max(1) as f64;
    println!(
        "slope of private memory after warm-up: {:.1} KiB/min, standard error {:.1} KiB/min: {each:.1} KiB for each \
         interpreter that has ended",
        trend.slope, trend.error
    );
    ensure!(each < NEGLIGIBLE || trend.slope < 3.0 * trend.error, "private memory grows");
    Ok(())
}
