//! A pool that grows.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hydrozoa::package::Package;
use hydrozoa::{ImportProfile, Imports, Interpreter, Movable, Pool, Tensor};
use hydrozoa_measure::contender::Order;
use hydrozoa_measure::drive::drive;
use hydrozoa_measure::effort::Own;
use hydrozoa_measure::models::Cases;
use hydrozoa_measure::orders;
use hydrozoa_measure::package::MODEL;
use hydrozoa_measure::samples::Samples;
use serde::{Deserialize, Serialize};

use crate::exported::Exported;
use crate::threads::join;

/// Calls of each worker before it is settled.
const WARM: usize = 3;

/// A pool that begins with no worker.
#[derive(Serialize, Deserialize)]
pub struct GrowingPool {
    pub exported: Exported,
    /// A file with a profile of imports.
    pub profile: Option<PathBuf>,
    /// Settle each interpreter in this directory.
    pub settle_in: Option<PathBuf>,
}

struct Server<'a> {
    options: &'a GrowingPool,
    pool: Pool,
    /// Holds the archive's pages for as long as the model is used.
    _package: Package,
    movable: Movable,
    cases: Cases,
    workers: usize,
}

impl GrowingPool {
    pub fn run(&self) -> Result<()> {
        let mut server = Server::new(self)?;
        orders::answer(|order| match order {
            Order::Grow { workers } => server.grow(workers),
            Order::Call { seconds, threads, .. } => server.serve(seconds, threads),
            Order::Each => server.each(),
            other => orders::refuse(&other),
        })
    }
}

impl<'a> Server<'a> {
    fn new(options: &'a GrowingPool) -> Result<Self> {
        let imports = match &options.profile {
            None => Imports::Eager,
            Some(path) => {
                let text = fs::read_to_string(path)
                    .with_context(|| format!("reading {}", path.display()))?;
                Imports::Profile(text.parse::<ImportProfile>()?)
            }
        };
        let pool = Pool::builder()
            .interpreters(1)
            .venv(&options.exported.venv)
            .imports(imports)
            .build()?;
        let entry = options.exported.model(super::MODEL)?;
        let package = pool.load_package(&entry.package)?;
        let movable = package.load_pickle(MODEL.0, MODEL.1)?;
        let cases = entry.cases()?;
        Ok(Self { options, pool, _package: package, movable, cases, workers: 0 })
    }

    /// Starts so many workers at once.
    fn grow(&mut self, count: usize) -> Result<Samples> {
        let begin = Own::now();
        self.pool.resize(self.workers + count)?;
        let interpreters = self.pool.interpreters();
        let new = &interpreters[self.workers..];
        thread::scope(|scope| {
            let first = |interpreter| -> Result<()> {
                ensure!(self.call(interpreter, 0)?, "the first output differs from plain python's");
                Ok(())
            };
            // One worker alone is called by this thread, which calls it later too.
            let (own, others) = new.split_first().context("no worker is asked for")?;
            let others = others.iter().map(|one| scope.spawn(move || first(one))).collect();
            first(own)?;
            join(others)
        })?;
        let effort = begin.since();
        if let Some(directory) = &self.options.settle_in {
            for interpreter in new {
                for index in 0..WARM {
                    self.call(interpreter, index)?;
                }
                interpreter.settle(directory)?;
            }
        }
        self.workers += count;
        Ok(Samples { effort, ..Samples::default() })
    }

    fn serve(&self, seconds: f64, threads: usize) -> Result<Samples> {
        let interpreters = self.pool.interpreters();
        let next = AtomicUsize::new(0);
        Ok(drive(threads, Duration::from_secs_f64(seconds), |_| {
            Ok::<_, hydrozoa::Error>(|_| {
                let index = next.fetch_add(1, Ordering::Relaxed);
                self.call(&interpreters[index % interpreters.len()], index)
            })
        })?)
    }

    fn each(&self) -> Result<Samples> {
        let (mut samples, begin) = (Samples::default(), Instant::now());
        for (index, interpreter) in self.pool.interpreters().iter().enumerate() {
            let start = Instant::now();
            let is_right = self.call(interpreter, index)?;
            samples.record(start.elapsed(), is_right);
        }
        samples.seconds = begin.elapsed().as_secs_f64();
        Ok(samples)
    }

    /// Whether the output is right.
    fn call(&self, interpreter: &Interpreter, index: usize) -> hydrozoa::Result<bool> {
        let session = interpreter.session();
        let model = self.movable.to_object(&session)?;
        let output: Tensor = model.call((self.cases.input(index),))?.extract()?;
        self.cases.is_right(index, &output)
    }
}
