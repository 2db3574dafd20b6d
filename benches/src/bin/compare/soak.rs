//! Two models on two interpreters for a long time, with objects created, moved and dropped: does memory grow?

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hydrozoa::memory::Usage;
use hydrozoa::{Pool, Tensor};
use hydrozoa_measure::models::manifest;
use hydrozoa_measure::package::MODEL;
use hydrozoa_measure::trend::Trend;

use crate::{Place, join};

const INTERPRETERS: usize = 2;

/// A slope below this, in KiB for each minute, is no noticeable leak: 2 MiB in a day are 1.4 KiB a minute. A single
/// heap arena that the allocator takes late in ten minutes is 100 KiB a minute.
const NEGLIGIBLE: f64 = 128.0;

#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    place: Place,
    /// How long, in seconds
    #[arg(long, default_value_t = 600.0)]
    seconds: f64,
}

/// The threads' work so far.
#[derive(Default)]
struct Work {
    calls: AtomicUsize,
    wrong: AtomicUsize,
    moved: AtomicUsize,
    stop: AtomicBool,
}

pub fn run(options: &Options) -> Result<()> {
    let pool = Pool::builder().interpreters(INTERPRETERS).venv(&options.place.venv).build()?;
    let work = Work::default();
    let points = thread::scope(|scope| {
        let threads: Vec<_> = (0..INTERPRETERS)
            .map(|thread| {
                let (pool, work) = (&pool, &work);
                scope.spawn(move || {
                    let done = one_thread(options, pool, work, thread);
                    // A failing thread ends the soak.
                    work.stop.store(true, Ordering::Relaxed);
                    done
                })
            })
            .collect();
        let points = watch(options, &work);
        work.stop.store(true, Ordering::Relaxed);
        join(threads)?;
        points
    })?;
    report(options, &work, &points)
}

/// Calls both models. Every tenth time, makes an object, moves it to the other interpreter and drops it.
fn one_thread(options: &Options, pool: &Pool, work: &Work, thread: usize) -> Result<()> {
    let mut models = Vec::new();
    for entry in manifest(&options.place.manifest)? {
        let package = pool.load_package(&entry.package)?;
        models.push((package.load_pickle(MODEL.0, MODEL.1)?, entry.cases()?, package));
    }
    let make = "import torch\nobject = torch.nn.Linear(256, 256).requires_grad_(False)\n";
    let mut index = thread;
    while !work.stop.load(Ordering::Relaxed) {
        let (model, cases, _) = &models[index % models.len()];
        let output: Tensor = model.call((cases.input(index),))?.extract()?;
        work.wrong.fetch_add(usize::from(!cases.is_right(index, &output)?), Ordering::Relaxed);
        work.calls.fetch_add(1, Ordering::Relaxed);
        if index.is_multiple_of(10) {
            let session = pool.acquire_on(thread)?;
            let object = session.run(make, "make.py")?.getattr("object")?;
            let movable = pool.create_movable(&object)?;
            let other = pool.acquire_on((thread + 1) % INTERPRETERS)?;
            let input = Tensor::from_vec(vec![1.0f32; 256], &[1, 256])?;
            let moved: Tensor = movable.to_object(&other)?.call((&input,))?.extract()?;
            let own: Tensor = object.call((&input,))?.extract()?;
            ensure!(
                moved.to_vec::<f32>()? == own.to_vec::<f32>()?,
                "a moved object gives another result"
            );
            work.moved.fetch_add(1, Ordering::Relaxed);
        }
        index += 1;
    }
    Ok(())
}

/// Samples private memory in KiB once a second, over minutes.
fn watch(options: &Options, work: &Work) -> Result<Vec<(f64, f64)>> {
    let begin = Instant::now();
    let mut points = Vec::new();
    while begin.elapsed().as_secs_f64() < options.seconds && !work.stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_secs(1));
        let minutes = begin.elapsed().as_secs_f64() / 60.0;
        let kib = Usage::of_process()?.private as f64 / 1024.0;
        points.push((minutes, kib));
        if points.len() % 30 == 0 {
            let (calls, moved) =
                (work.calls.load(Ordering::Relaxed), work.moved.load(Ordering::Relaxed));
            println!(
                "{minutes:5.1} min: {calls} calls, {moved} objects moved, private memory {:.1} MiB",
                kib / 1024.0
            );
        }
    }
    Ok(points)
}

fn report(options: &Options, work: &Work, points: &[(f64, f64)]) -> Result<()> {
    let [calls, wrong, moved] =
        [&work.calls, &work.wrong, &work.moved].map(|count| count.load(Ordering::Relaxed));
    println!("{calls} calls, {wrong} wrong; {moved} objects made, moved and dropped");
    ensure!(wrong == 0, "{wrong} outputs differ from plain python's");
    // The first fifth is warm-up: caches of shapes and primitives, the allocators' arenas.
    let warm = &points[points.len() / 5..];
    let trend = Trend::of(warm)
        .with_context(|| format!("{} seconds are too few for a trend", options.seconds))?;
    println!(
        "slope of private memory after warm-up: {:.1} KiB/min, standard error {:.1} KiB/min",
        trend.slope, trend.error
    );
    ensure!(
        trend.slope < NEGLIGIBLE.max(3.0 * trend.error),
        "private memory grows by {:.1} KiB/min, more than three standard errors",
        trend.slope
    );
    Ok(())
}
