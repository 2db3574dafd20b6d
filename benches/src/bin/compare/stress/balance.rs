//! The balance at the end: no objects of Rust or Python, as many threads and descriptors as before, and little more memory.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hydrozoa::memory::Usage;
use hydrozoa::movable::shared_memory;
use hydrozoa::{Builder, Interpreter, WeakInterpreter};

use super::calls::works;
use super::pools::END;
use super::watch::{Sample, print_stacks};
use super::world::{World, lock, stress};

/// Shorter runs say nothing: heaps are still filling.
const GROWTH_FROM: f64 = 300.0;
/// KiB that each interpreter which has ended may leave, which the allocators keep: of the process, and of malloc's blocks.
const KIB: f64 = 50.0;
/// With torch, what an end leaves (docs/specification.md).
const KIB_OF_TORCH: f64 = 200.0;
/// How many times as many mappings there may be in the last quarter of a run as in the second, for each place of an interpreter. What
/// ended interpreters had stays until others take it over: the busier the machine is, the more places there are.
const MAPPINGS: f64 = 1.25;

/// The process's resources.
#[derive(Debug)]
pub struct Balance {
    threads: usize,
    descriptors: usize,
    /// MiB of the C library's unfreed blocks. Its arenas keep free ones between them, so the process has more.
    blocks: f64,
    /// MiB of private memory, without the free pages of malloc's arenas.
    private: f64,
}

impl Balance {
    fn now() -> Result<Self> {
        let count = |folder| Ok::<_, anyhow::Error>(fs::read_dir(folder)?.count());
        let mib = |bytes: f64| bytes / f64::from(1 << 20);
        // SAFETY: no precondition.
        unsafe { libc::malloc_trim(0) };
        Ok(Self {
            threads: count("/proc/self/task")?,
            descriptors: count("/proc/self/fd")?,
            blocks: mib(in_use() as f64),
            private: mib(Usage::of_process()?.private as f64),
        })
    }

    /// The resources after a first pool has ended: libraries are known, and threads that serve all pools run.
    pub fn after_warm_up(builder: Builder, packages: &[&str]) -> Result<Self> {
        let pool = builder.interpreters(2).build()?;
        for interpreter in pool.interpreters() {
            let session = interpreter.session();
            let long = Duration::from_secs(600);
            let sum: i64 = session.with_deadline(long, || session.eval("1 + 1")?.extract())?;
            ensure!(sum == 2, "1 + 1 is {sum}");
            interpreter.event_loop()?;
            for module in ["subprocess"].iter().chain(packages) {
                session.import(module)?;
            }
        }
        pool.close(END)?;
        Self::now()
    }
}

/// Bytes of malloc's blocks.
fn in_use() -> usize {
    // SAFETY: takes nothing.
    let info = unsafe { libc::mallinfo2() };
    info.uordblks + info.hblkhd
}

/// Ends everything, and looks at the remains.
pub fn check(world: World, before: &Balance, samples: &[Sample]) -> Result<()> {
    for errand in std::mem::take(&mut *lock(&world.errands)) {
        errand()?;
    }
    for movable in &world.movables {
        drop(lock(movable).take());
    }
    for interpreter in world.pool.interpreters() {
        interpreter.drain();
        let session = interpreter.session();
        let name = interpreter.name();
        works(&session, 20)?;
        session.import("ftplib").with_context(|| format!("{name} does not import"))?;
        let threads: i64 = stress(&session)?.call_method("start_threads", (5,))?.extract()?;
        ensure!(threads == 10, "five threads of {name} have left {threads}");
        let kept: usize = stress(&session)?.call_method("count_kept", ())?.extract()?;
        ensure!(kept == 0, "{kept} objects of {name} that nobody refers to are alive");
    }
    let ends = world.ends();
    let World { pool, alive, older, torch, .. } = world;
    let mut weak: Vec<_> = older.into_inner()?.into();
    weak.extend(pool.interpreters().iter().map(Interpreter::downgrade));
    let outcome = pool.close(END);
    // Those that were replaced end beside the others.
    let is_over = wait(|| weak.iter().all(|one| one.upgrade().is_none()));
    if outcome.is_err() || !is_over {
        print_stacks(weak.iter().filter_map(WeakInterpreter::upgrade));
        outcome?;
        bail!("an interpreter that was replaced has not ended");
    }
    let all_are_gone = wait(|| alive.text().is_empty());
    ensure!(
        all_are_gone,
        "things that Python had are alive: {}; threads: {}",
        alive.text(),
        names()?
    );
    let shared = shared_memory();
    ensure!(shared.ranges == 0, "shared memory was not freed: {shared:?}");
    wait(|| Balance::now().is_ok_and(|now| now.threads <= before.threads));
    let now = Balance::now()?;
    println!("{before:?} before, {now:?} after {ends} interpreters");
    ensure!(now.threads <= before.threads, "threads are left: {}", names()?);
    ensure!(now.descriptors <= before.descriptors, "descriptors are left: {now:?}");
    growth(samples, ends, if torch { KIB_OF_TORCH } else { KIB }, before, &now)
}

/// Waits for what happens on other threads.
fn wait(is_so: impl Fn() -> bool) -> bool {
    let end = Instant::now() + END;
    while !is_so() {
        if Instant::now() > end {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
    true
}

/// The names of the process's threads.
fn names() -> Result<String> {
    let tasks = fs::read_dir("/proc/self/task")?;
    let names: Result<Vec<String>, _> =
        tasks.map(|task| fs::read_to_string(task?.path().join("comm"))).collect();
    Ok(names?.concat().replace('\n', ", "))
}

/// Whether each end has left so many KiB of memory, or mappings.
///
/// While interpreters run, memory rises and falls with how many there are, and they are the more the busier the machine is: it is
/// measured when all have ended.
fn growth(samples: &[Sample], ends: u64, kib: f64, before: &Balance, now: &Balance) -> Result<()> {
    let minutes = samples.last().map_or(0.0, |last| last.minutes);
    if minutes * 60.0 < GROWTH_FROM {
        return Ok(());
    }
    for (what, of) in [
        ("malloc's blocks", (|balance| balance.blocks) as fn(&Balance) -> f64),
        ("private memory", |balance| balance.private),
    ] {
        let left = (of(now) - of(before)) * 1024.0 / ends.max(1) as f64;
        println!("{what} that each interpreter has left: {left:.1} KiB");
        ensure!(left < kib, "too much of {what} is left");
    }
    let quarter = samples.len() / 4;
    let each = |samples: &[Sample]| {
        let mut each: Vec<_> =
            samples.iter().map(|one| one.mappings / one.places.max(1.0)).collect();
        each.sort_by(f64::total_cmp);
        each[each.len() / 2]
    };
    let (early, late) = (each(&samples[quarter..2 * quarter]), each(&samples[3 * quarter..]));
    println!(
        "mappings for each place of an interpreter: {early:.0} in the second quarter, {late:.0} in the last"
    );
    ensure!(late < MAPPINGS * early, "the process's mappings grow");
    Ok(())
}
