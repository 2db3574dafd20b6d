//! The watchdog, and samples of memory.

use std::fs;
use std::process::Command;
use std::sync::atomic::Ordering;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::Result;
use hydrozoa::memory::Usage;
use hydrozoa::{Interpreter, WeakInterpreter};

use super::table::OPERATIONS;
use super::world::{THREADS, World, lock};

/// How many samples one operation may take before it counts as a hang. There is one a second. On a machine that gives this
/// process little time, the thread that samples is late as the others are, and no operation counts as a hang for that.
const PATIENCE: usize = 120;

/// The process's resources at one moment.
pub struct Sample {
    /// Since the begin.
    pub minutes: f64,
    pub mappings: f64,
    /// Mappings of libpython's code: interpreters, and places of ended ones that wait for others.
    pub places: f64,
}

/// The last operation of each thread that was seen, and in which sample it was new.
struct Seen([(u64, usize); THREADS]);

impl Seen {
    /// The thread that has stood still for too long, if there is one.
    fn look(&mut self, world: &World, sample: usize) -> Option<usize> {
        let mut hangs = None;
        for (thread, (last, since)) in self.0.iter_mut().enumerate() {
            let progress = &world.progress[thread];
            let now = progress.number.load(Ordering::Relaxed);
            let rests = progress.operation.load(Ordering::Relaxed) == OPERATIONS.len();
            if now != *last || rests {
                (*last, *since) = (now, sample);
            } else if sample - *since > PATIENCE {
                hangs = Some(thread);
            }
        }
        hangs
    }
}

/// One a second. Ends the process if a thread stands still.
pub fn watch(world: &World, seconds: f64, seed: u64) -> Result<Vec<Sample>> {
    let begin = Instant::now();
    let mut points = Vec::new();
    let mut seen = Seen([(u64::MAX, 0); THREADS]);
    while begin.elapsed().as_secs_f64() < seconds && !world.stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_secs(1));
        let minutes = begin.elapsed().as_secs_f64() / 60.0;
        let private = Usage::of_process()?.private as f64 / f64::from(1 << 20);
        let maps = fs::read_to_string("/proc/self/maps")?;
        let mappings = maps.lines().count() as f64;
        let is_code = |line: &&str| line.contains("/libpython3.") && line.contains(" r-xp ");
        let places = maps.lines().filter(is_code).count() as f64;
        points.push(Sample { minutes, mappings, places });
        if points.len() % 30 == 0 {
            let all: u64 =
                world.progress.iter().map(|one| one.number.load(Ordering::Relaxed)).sum();
            println!(
                "{minutes:5.1} min: {all} operations, {} interpreters ended, private memory {:.1} MiB, \
                 {mappings} mappings, {places} of libpython's code",
                world.ends(),
                private
            );
        }
        if let Some(thread) = seen.look(world, points.len()) {
            hangs(world, thread, seed);
        }
    }
    Ok(points)
}

/// Waits for the threads' last operations. Ends the process if one stands still.
pub fn join_within<T>(threads: &[ScopedJoinHandle<'_, T>], world: &World, seed: u64) {
    let mut seen = Seen([(u64::MAX, 0); THREADS]);
    for sample in 0.. {
        if threads.iter().all(ScopedJoinHandle::is_finished) {
            return;
        }
        thread::sleep(Duration::from_secs(1));
        if let Some(thread) = seen.look(world, sample) {
            hangs(world, thread, seed);
        }
    }
}

/// Says all that can be known about a thread that waits for something that never happens. It cannot be joined.
fn hangs(world: &World, thread: usize, seed: u64) -> ! {
    eprintln!("error: seed {seed}: thread {thread} stands still");
    for (index, progress) in world.progress.iter().enumerate() {
        let operation = OPERATIONS.get(progress.operation.load(Ordering::Relaxed));
        let name = operation.map_or("none", |one| one.name);
        let number = progress.number.load(Ordering::Relaxed).wrapping_sub(1);
        eprintln!("thread {index}: operation {number} ({name})");
    }
    let older: Vec<_> = lock(&world.older).iter().filter_map(WeakInterpreter::upgrade).collect();
    print_stacks(world.pool.interpreters().into_iter().chain(older));
    hydrozoa::exit_at_once(1)
}

/// The stacks of Python and of the kernel and, with gdb, of native code.
pub fn print_stacks(interpreters: impl Iterator<Item = Interpreter>) {
    for interpreter in interpreters {
        let stacks = interpreter.stacks().unwrap_or_else(|error| error.to_string());
        eprintln!("{}, {} sessions:\n{stacks}", interpreter.name(), interpreter.leases());
        // A drop could wait for the interpreter's end.
        std::mem::forget(interpreter);
    }
    for task in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name| fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let (name, place, call) = (read("comm"), read("wchan"), read("syscall"));
        eprintln!("{} {}: {place}, {}", task.file_name().display(), name.trim(), call.trim());
    }
    let process = std::process::id().to_string();
    let gdb = ["120", "gdb", "-p", &process, "-batch", "-ex", "thread apply all bt 40"];
    match Command::new("timeout").args(gdb).status() {
        Ok(status) if status.success() => {}
        other => eprintln!("no native stacks, since gdb could not be run: {other:?}"),
    }
}
