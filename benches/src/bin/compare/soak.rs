//! Two models on two interpreters for a long time, with objects created, moved and dropped: does memory grow?

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result, ensure};
use hydrozoa::package::Package;
use hydrozoa::{Movable, Pool, Tensor};
use hydrozoa_measure::models::{Cases, ExportedModel, manifest};
use hydrozoa_measure::package::MODEL;

use crate::exported::Exported;
use crate::threads::{slope, take_turns};

const INTERPRETERS: usize = 2;

/// A slope below this, in KiB a minute, does not count as a leak: 2 MiB in a day are 1.4 KiB a minute. A single
/// heap arena that the allocator takes late in ten minutes is 100 KiB a minute.
const NEGLIGIBLE: f64 = 128.0;

#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    exported: Exported,
    /// How long, in minutes
    #[arg(long, value_name = "M", default_value_t = 10.0)]
    minutes: f64,
}

/// The threads' work so far.
#[derive(Default)]
struct Work {
    calls: AtomicUsize,
    wrong: AtomicUsize,
    moved: AtomicUsize,
}

/// A model of one thread. The package holds the archive's pages.
type Model = (Movable, Cases, Package);

pub fn run(options: &Options) -> Result<()> {
    let pool = Pool::builder().interpreters(INTERPRETERS).venv(&options.exported.venv).build()?;
    let load = |entry: ExportedModel| -> Result<Model> {
        let package = pool.load_package(&entry.package)?;
        Ok((package.load_pickle(MODEL.0, MODEL.1)?, entry.cases()?, package))
    };
    let models: [OnceLock<Vec<Model>>; INTERPRETERS] = Default::default();
    let work = Work::default();
    let count = |count: &AtomicUsize| count.load(Ordering::Relaxed);
    let points = take_turns(
        INTERPRETERS,
        options.minutes * 60.0,
        |thread, number| {
            // Each thread loads its own, all at once.
            if number == 0 {
                let all = manifest(&options.exported.manifest)?;
                let _ = models[thread].set(all.into_iter().map(load).collect::<Result<_>>()?);
            }
            let models = models[thread].get().context("they were loaded in the first turn")?;
            turn(&pool, models, &work, thread, thread + number)
        },
        || format!("{} calls, {} objects moved", count(&work.calls), count(&work.moved)),
        || (),
    )?;
    let [calls, wrong, moved] = [&work.calls, &work.wrong, &work.moved].map(count);
    println!("{calls} calls, {wrong} wrong; {moved} objects made, moved and dropped");
    ensure!(wrong == 0, "{wrong} outputs differ from plain python's");
    let trend = slope(&points)?;
    ensure!(
        trend.slope < NEGLIGIBLE.max(3.0 * trend.error),
        "private memory grows by {:.1} KiB/min, more than three standard errors",
        trend.slope
    );
    Ok(())
}

/// Calls a model. Every tenth time, makes an object, moves it to the other interpreter and drops it.
fn turn(pool: &Pool, models: &[Model], work: &Work, thread: usize, index: usize) -> Result<()> {
    let (model, cases, _) = &models[index % models.len()];
    let output: Tensor = model.call((cases.input(index),))?.extract()?;
    work.wrong.fetch_add(usize::from(!cases.is_right(index, &output)?), Ordering::Relaxed);
    work.calls.fetch_add(1, Ordering::Relaxed);
    if index.is_multiple_of(10) {
        let make = "import torch\nobject = torch.nn.Linear(256, 256).requires_grad_(False)\n";
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
    Ok(())
}
