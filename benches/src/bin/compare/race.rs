//! Many threads that make, call, unload and drop the same movables at random: does anything hang, leak or differ?

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use fastrand::Rng;
use hydrozoa::movable::shared_memory;
use hydrozoa::{Movable, Pool, Tensor};

use crate::threads::{slope, take_turns};

const INTERPRETERS: usize = 4;
const THREADS: usize = 16;
const MOVABLES: usize = 50;
/// Inputs of the objects that are moved.
const WIDTH: usize = 32;
/// How long one turn of one thread may take before it counts as a deadlock. A normal turn takes milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Growth in bytes for each movable made that is attributed to the allocators. A leaked object of any kind would take
/// ten times that. Measured: 1.6.
const NEGLIGIBLE: f64 = 4.0;
/// Shorter runs have no trend: the allocators' arenas are still filling.
const TREND_FROM: f64 = 120.0;

#[derive(clap::Args)]
pub struct Options {
    /// The virtual environment with torch
    #[arg(long)]
    venv: std::path::PathBuf,
    /// How long, in minutes
    #[arg(long, value_name = "M", default_value_t = 5.0)]
    minutes: f64,
}

/// A movable and its expected answer.
type Slot = Mutex<Option<(Movable, f32)>>;

#[derive(Default)]
struct Turns {
    of: [AtomicU64; THREADS],
    made: AtomicU64,
    called: AtomicU64,
    dropped: AtomicU64,
}

pub fn run(options: &Options) -> Result<()> {
    let pool = Pool::builder().interpreters(INTERPRETERS).venv(&options.venv).build()?;
    for interpreter in pool.interpreters() {
        interpreter.session().run("import torch, gc\ntorch.set_num_threads(1)", "prepare.py")?;
    }
    let alive = layers(&pool)?;
    let slots: Vec<Slot> = (0..MOVABLES).map(|_| Mutex::default()).collect();
    let turns = Turns::default();
    let randoms: Vec<_> =
        (1..=THREADS as u64).map(|seed| Mutex::new(Rng::with_seed(seed))).collect();
    let mut stalled = Stalled([(u64::MAX, Instant::now()); THREADS]);
    let points = take_turns(
        THREADS,
        options.minutes * 60.0,
        |thread, _| {
            let mut random = randoms[thread].lock().unwrap_or_else(PoisonError::into_inner);
            turn(&pool, &slots, &turns, &mut random)?;
            turns.of[thread].fetch_add(1, Ordering::Relaxed);
            Ok(())
        },
        || format!("{} made", turns.made.load(Ordering::Relaxed)),
        || stalled.look(&turns),
    )?;
    drop(slots);
    report(&pool, &turns, &points, &alive)
}

fn lock(slot: &Slot) -> std::sync::MutexGuard<'_, Option<(Movable, f32)>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner)
}

fn turn(pool: &Pool, slots: &[Slot], turns: &Turns, random: &mut Rng) -> Result<()> {
    let slot = &slots[random.usize(..MOVABLES)];
    let interpreter = random.usize(..INTERPRETERS);
    let held = lock(slot).clone();
    match (random.usize(..10), held) {
        (0, Some(_)) => {
            let taken = lock(slot).take();
            // Half of them run under the GIL of some interpreter.
            if random.usize(..2) == 0 {
                pool.acquire_on(interpreter)?.with_gil(|| drop(taken));
            }
            turns.dropped.fetch_add(1, Ordering::Relaxed);
        }
        (1, Some((movable, _))) => movable.unload(&pool.acquire_on(interpreter)?),
        (2, Some((movable, value))) => {
            // The movable moves on from an interpreter that has only borrowed its memory.
            let session = pool.acquire_on(interpreter)?;
            let moved = session.create_movable(&movable.to_object(&session)?)?;
            *lock(slot) = Some((moved, value));
            turns.made.fetch_add(1, Ordering::Relaxed);
        }
        (_, Some((movable, value))) => {
            let x = Tensor::from_vec(vec![1.0_f32; WIDTH], &[1, WIDTH as i64])?;
            let y: Tensor = match random.usize(..2) {
                0 => movable.call((&x,))?.extract()?,
                _ => {
                    let session = pool.acquire_on(interpreter)?;
                    movable.to_object(&session)?.call((&x,))?.extract()?
                }
            };
            ensure!(y.to_vec::<f32>()? == [value * WIDTH as f32], "a wrong result");
            turns.called.fetch_add(1, Ordering::Relaxed);
        }
        (_, None) => {
            let value = random.usize(..1000) as f32;
            let session = pool.acquire_on(interpreter)?;
            let code = format!(
                "import torch\nobject = torch.nn.Linear({WIDTH}, 1, bias=False).requires_grad_(False)\nobject.weight.fill_({value})\n"
            );
            let object = session.run(&code, "make.py")?.getattr("object")?;
            *lock(slot) = Some((session.create_movable(&object)?, value));
            turns.made.fetch_add(1, Ordering::Relaxed);
        }
    }
    Ok(())
}

/// The last number of turns of each thread that was seen, and since when.
struct Stalled([(u64, Instant); THREADS]);

impl Stalled {
    /// Ends the process if a thread stands still.
    fn look(&mut self, turns: &Turns) {
        for (thread, (last, since)) in self.0.iter_mut().enumerate() {
            let now = turns.of[thread].load(Ordering::Relaxed);
            if now != *last {
                (*last, *since) = (now, Instant::now());
            } else if since.elapsed() > PATIENCE {
                // The thread cannot be joined: it waits for something that never happens.
                eprintln!(
                    "error: deadlock: thread {thread} has stood still for {PATIENCE:?} after {now} turns"
                );
                std::process::exit(1);
            }
        }
    }
}

/// The number of objects of the moved class that live in each interpreter.
fn layers(pool: &Pool) -> Result<Vec<i64>> {
    let count = "import gc, torch\ngc.collect()\nn = sum(type(o) is torch.nn.Linear for o in gc.get_objects())";
    let all = pool.interpreters().into_iter().map(|interpreter| {
        interpreter.drain();
        Ok(interpreter.session().run(count, "count.py")?.getattr("n")?.extract()?)
    });
    all.collect()
}

fn report(pool: &Pool, turns: &Turns, points: &[(f64, f64)], alive: &[i64]) -> Result<()> {
    let [made, called, dropped] =
        [&turns.made, &turns.called, &turns.dropped].map(|count| count.load(Ordering::Relaxed));
    println!(
        "{THREADS} threads on {INTERPRETERS} interpreters: {made} movables made, {called} calls, {dropped} dropped; every result right"
    );
    ensure!(
        made > 0 && called > 0 && dropped > 0,
        "the run was too short: {made} made, {called} called, {dropped} dropped"
    );
    // The second round frees objects that one interpreter's object kept alive in another.
    layers(pool)?;
    let left = layers(pool)?;
    ensure!(left == alive, "objects were not freed: {left:?} are alive instead of {alive:?}");
    let shared = shared_memory();
    ensure!(shared.ranges == 0, "shared memory was not freed: {shared:?}");
    println!("all movables and their memory were freed");
    if points.last().is_none_or(|(minutes, _)| minutes * 60.0 < TREND_FROM) {
        return Ok(());
    }
    let trend = slope(points)?;
    let minutes = points.last().map_or(f64::NAN, |(minutes, _)| *minutes);
    let each = trend.slope * 1024.0 * minutes / made as f64;
    println!("that is {each:.1} bytes for each movable made");
    ensure!(each < NEGLIGIBLE || trend.slope < 3.0 * trend.error, "private memory grows");
    Ok(())
}
