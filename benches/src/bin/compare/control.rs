//! Calls that loop, sleep, block in C or eat memory, one after the other: how soon each ends or is reported, and whether the
//! other interpreter notices.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hydrozoa::{Error, Pool, Session};
use hydrozoa_measure::samples::percentile;

use crate::threads::join;

/// The interpreter in which calls are stopped, and the one that serves meanwhile.
const VICTIM: usize = 0;
const OTHER: usize = 1;
/// How long after its begin a call is interrupted, or has its deadline.
const LIMIT: Duration = Duration::from_millis(50);
/// How long the call into C takes at least.
const NATIVE: f64 = 3.0;
/// The kinds of calls that are stopped.
const KINDS: [&str; 4] = ["loops", "calls that sleep", "calls into C", "calls that eat memory"];
/// Rounds of each kind between two measurements of the other interpreter by itself.
const BLOCK: usize = 5;
/// An event that takes longer than this is an error.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(clap::Args)]
pub struct Options {
    /// The virtual environment; torch is imported from it with `--torch`
    #[arg(long)]
    venv: Option<PathBuf>,
    /// Each interpreter imports torch before it serves
    #[arg(long, requires = "venv")]
    torch: bool,
    /// How many calls are stopped, a quarter of them in each way
    #[arg(long, default_value_t = 1000)]
    rounds: usize,
}

/// `native` runs in C, holds the GIL and asks for no interrupts (CPython, Objects/longobject.c, `long_pow` without a modulus
/// does not look at the eval breaker). `calibrate` finds an exponent that takes long enough.
const MODULE: &str = "
import time

def loop():
    while True: pass

def sleep():
    time.sleep(3)

def power(bits):
    return (3 ** bits).bit_length()

def calibrate(seconds):
    bits = 1 << 16
    while True:
        begin = time.perf_counter()
        power(bits)
        took = time.perf_counter() - begin
        if took > seconds: return bits
        bits += bits if took < seconds / 4 else bits // 8

def eat():
    return [bytearray(1 << 20) for _ in range(1 << 16)]

def serve(n):
    return sum(i * i for i in range(n))
";

/// The measured times, in milliseconds.
#[derive(Default)]
struct Seen {
    /// From the interrupt to the error of a loop.
    loops: Vec<f64>,
    /// From the interrupt to the error of a call that sleeps, or to its report.
    sleeps: Vec<f64>,
    /// From the deadline of a call into C to its report.
    reports: Vec<f64>,
    /// From the deadline to the first interpreter of the pool being another one.
    replaced: Vec<f64>,
    /// From the deadline to the first answer of that one, with its imports.
    served: Vec<f64>,
    /// From the begin of a call to its MemoryError.
    ceilings: Vec<f64>,
    /// Reports of calls that reacted all the same, but late.
    early: usize,
}

impl Seen {
    /// Takes the reports that came since the last call that was waited for.
    fn note_early(&mut self, reports: &Receiver<Instant>) {
        self.early += reports.try_iter().count();
    }
}

pub fn run(options: &Options) -> Result<()> {
    let (report, reports) = mpsc::channel();
    let mut builder = Pool::builder()
        .interpreters(2)
        .memory_limit(if options.torch { 2 << 30 } else { 256 << 20 })
        .replace_stuck(true)
        .on_stuck(move |_| {
            let _ = report.send(Instant::now());
        });
    if let Some(venv) = &options.venv {
        builder = builder.venv(venv);
    }
    let pool = builder.build()?;
    let imports = if options.torch { "import torch\n" } else { "" };
    pool.register_module("control", &format!("{imports}{MODULE}"))?;
    let bits: i64 = {
        let session = pool.acquire_on(OTHER)?;
        session.import("control")?.call_method("calibrate", (NATIVE,))?.extract()?
    };
    println!("3 ** {bits} takes more than {NATIVE} s in C");
    let mut seen = Seen::default();
    let (mut alone, mut beside) = (Vec::new(), KINDS.map(|_| Vec::new()));
    let blocks = options.rounds.div_ceil(4 * BLOCK);
    for block in 0..blocks {
        alone.extend(serving(&pool, || {
            thread::sleep(Duration::from_secs(5));
            Ok(())
        })?);
        for (kind, beside) in beside.iter_mut().enumerate() {
            beside.extend(serving(&pool, || {
                (0..BLOCK).try_for_each(|_| match kind {
                    0 => stop_loop(&pool, &mut seen),
                    1 => stop_sleep(&pool, &mut seen, &reports),
                    2 => stop_native(&pool, &mut seen, &reports, bits),
                    _ => stop_eating(&pool, &mut seen),
                })
            })?);
        }
        if (block + 1) % 5 == 0 || block + 1 == blocks {
            println!("{} of {} rounds", 4 * BLOCK * (block + 1), 4 * BLOCK * blocks);
        }
    }
    seen.note_early(&reports);
    pool.close(PATIENCE).context("at the end")?;
    print(&seen, &alone, &beside);
    Ok(())
}

/// Latencies in milliseconds of short calls to the other interpreter, while `work` runs.
fn serving(pool: &Pool, work: impl FnOnce() -> Result<()>) -> Result<Vec<f64>> {
    let over = AtomicBool::new(false);
    let mut latencies = Vec::new();
    thread::scope(|scope| {
        let server = scope.spawn(|| {
            let session = pool.acquire_on(OTHER)?;
            let control = session.import("control")?;
            while !over.load(Ordering::Relaxed) {
                let begin = Instant::now();
                let sum: i64 = control.call_method("serve", (5000,))?.extract()?;
                latencies.push(milliseconds(begin.elapsed()));
                ensure!(sum == 41_654_167_500, "serve(5000) is {sum}");
            }
            Ok(())
        });
        let done = work();
        over.store(true, Ordering::Relaxed);
        join(vec![server])?;
        done
    })?;
    Ok(latencies)
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Interrupts what `action` calls after [`LIMIT`], and returns the outcome, the time of the interrupt and that of the end.
fn interrupted(
    session: &Session,
    action: impl FnOnce() -> hydrozoa::Result<()>,
) -> Result<(hydrozoa::Result<()>, Instant, Instant)> {
    let handle = session.interrupt_handle();
    thread::scope(|scope| {
        let interrupter = scope.spawn(move || {
            thread::sleep(LIMIT);
            let sent = Instant::now();
            while !handle.interrupt() {
                thread::yield_now();
            }
            sent
        });
        let outcome = action();
        let end = Instant::now();
        let Ok(sent) = interrupter.join() else { bail!("the interrupter panicked") };
        Ok((outcome, sent, end))
    })
}

fn stop_loop(pool: &Pool, seen: &mut Seen) -> Result<()> {
    let session = pool.acquire_on(VICTIM)?;
    let control = session.import("control")?;
    let (outcome, sent, end) = interrupted(&session, || control.call_method("loop", ()).map(drop))?;
    ensure!(matches!(outcome, Err(Error::Interrupted { .. })), "a loop became {outcome:?}");
    seen.loops.push(milliseconds(end - sent));
    Ok(())
}

/// A call that sleeps is interrupted where Python wakes it up, and reported elsewhere. Then its interpreter is replaced.
fn stop_sleep(pool: &Pool, seen: &mut Seen, reports: &Receiver<Instant>) -> Result<()> {
    seen.note_early(reports);
    let before = name(pool);
    let session = pool.acquire_on(VICTIM)?;
    let control = session.import("control")?;
    let (outcome, sent, end) =
        interrupted(&session, || control.call_method("sleep", ()).map(drop))?;
    let is_known = matches!(outcome, Ok(()) | Err(Error::Interrupted { .. }));
    ensure!(is_known, "a call that sleeps became {outcome:?}");
    let reported = reports.try_recv().ok();
    let first = reported.map_or(end, |report| report.min(end));
    seen.sleeps.push(milliseconds(first - sent));
    drop(control);
    drop(session);
    if reported.is_some() {
        wait_for_another(pool, &before)?;
    }
    Ok(())
}

fn stop_native(pool: &Pool, seen: &mut Seen, reports: &Receiver<Instant>, bits: i64) -> Result<()> {
    seen.note_early(reports);
    let before = name(pool);
    let session = pool.acquire_on(VICTIM)?;
    let (begun, begin) = mpsc::channel();
    thread::scope(|scope| {
        let caller = scope.spawn(move || {
            let control = session.import("control")?;
            begun.send(Instant::now())?;
            let call = || control.call_method("power", (bits,)).map(drop);
            let outcome = session.with_deadline(LIMIT, call);
            let is_known = matches!(outcome, Ok(()) | Err(Error::Deadline { .. }));
            ensure!(is_known, "a call into C became {outcome:?}");
            Ok(())
        });
        let deadline = begin.recv().context("the caller")? + LIMIT;
        match reports.recv_timeout(PATIENCE) {
            Ok(report) => seen.reports.push(milliseconds(report - deadline)),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                bail!("a call into C was not reported")
            }
        }
        wait_for_another(pool, &before)?;
        seen.replaced.push(milliseconds(deadline.elapsed()));
        let new = pool.acquire_on(VICTIM)?;
        let sum: i64 = new.import("control")?.call_method("serve", (5000,))?.extract()?;
        ensure!(sum == 41_654_167_500, "serve(5000) is {sum} in the new interpreter");
        seen.served.push(milliseconds(deadline.elapsed()));
        join(vec![caller])
    })
}

fn stop_eating(pool: &Pool, seen: &mut Seen) -> Result<()> {
    let session = pool.acquire_on(VICTIM)?;
    let control = session.import("control")?;
    let begin = Instant::now();
    let Err(Error::Python { type_name, .. }) = control.call_method("eat", ()) else {
        bail!("there is no ceiling")
    };
    seen.ceilings.push(milliseconds(begin.elapsed()));
    ensure!(type_name == "MemoryError", "{type_name} at the ceiling");
    Ok(())
}

fn name(pool: &Pool) -> String {
    pool.interpreters()[VICTIM].name().to_owned()
}

fn wait_for_another(pool: &Pool, before: &str) -> Result<()> {
    let begin = Instant::now();
    while name(pool) == before {
        ensure!(begin.elapsed() < PATIENCE, "{before} was not replaced");
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

fn print(seen: &Seen, alone: &[f64], beside: &[Vec<f64>; KINDS.len()]) {
    println!("\n{:<66} {:>6} {:>8} {:>8} {:>8}", "milliseconds", "times", "median", "p99", "most");
    let rows = [
        ("a loop in Python: interrupt to error", &seen.loops),
        ("a call that sleeps: interrupt to error or report", &seen.sleeps),
        ("a call into C of 3 s: deadline to report", &seen.reports),
        ("  deadline to a pool of full size", &seen.replaced),
        ("  deadline to the first answer of the new interpreter", &seen.served),
        ("a call that eats memory: begin to MemoryError", &seen.ceilings),
    ];
    for (what, times) in rows {
        let [median, late, most] = [0.5, 0.99, 1.0].map(|quantile| percentile(times, quantile));
        println!("{what:<66} {:>6} {median:>8.1} {late:>8.1} {most:>8.1}", times.len());
    }
    println!("{:<66} {:>6}", "reports of loops and of calls that eat memory", seen.early);
    println!(
        "\n{:<66} {:>6} {:>8} {:>8}",
        "short calls to the other interpreter", "times", "median", "p99"
    );
    let rows = KINDS.iter().zip(beside).map(|(what, times)| (format!("beside {what}"), &times[..]));
    for (what, times) in std::iter::once(("by themselves".to_owned(), alone)).chain(rows) {
        let [median, late] = [0.5, 0.99].map(|quantile| percentile(times, quantile));
        println!("{what:<66} {:>6} {median:>8.2} {late:>8.2}", times.len());
    }
    let all = beside.concat();
    let [one, other] = [alone, &all[..]].map(|times| percentile(times, 0.99));
    println!("p99 beside all of these: {:.2} times that by themselves", other / one);
}
