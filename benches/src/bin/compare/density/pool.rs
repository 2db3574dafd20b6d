//! A pool that grows.

use std::fs;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hydrozoa::package::Package;
use hydrozoa::{ImportProfile, Imports, Interpreter, Movable, Pool, Tensor};
use hydrozoa_measure::drive::drive;
use hydrozoa_measure::models::{Cases, manifest};
use hydrozoa_measure::package::MODEL;
use hydrozoa_measure::samples::Samples;
use serde::Serialize;

use super::side::{Order, Started};
use crate::{Place, join};

/// Calls of each worker before it is settled.
const WARM: usize = 3;

#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    place: Place,
    /// A profile of imports
    #[arg(long)]
    profile: Option<PathBuf>,
    /// Settle each interpreter in this directory
    #[arg(long)]
    settle_in: Option<PathBuf>,
}

struct Server<'a> {
    options: &'a Options,
    pool: Pool,
    /// Holds the archive's pages for as long as the model is used.
    _package: Package,
    movable: Movable,
    cases: Cases,
    workers: usize,
}

pub fn run(options: &Options) -> Result<()> {
    let mut server = Server::new(options)?;
    let mut output = std::io::stdout().lock();
    writeln!(output, "{{\"ready\": {}}}", std::process::id())?;
    output.flush()?;
    for line in std::io::stdin().lock().lines() {
        match serde_json::from_str(&line?).context("reading an order")? {
            Order::Grow { workers } => answer(&mut output, &server.grow(workers)?)?,
            Order::Serve { seconds, callers } => {
                answer(&mut output, &server.serve(seconds, callers)?)?
            }
            Order::Each => answer(&mut output, &server.each()?)?,
        }
    }
    Ok(())
}

fn answer(output: &mut impl Write, value: &impl Serialize) -> Result<()> {
    serde_json::to_writer(&mut *output, value)?;
    output.write_all(b"\n")?;
    Ok(output.flush()?)
}

impl<'a> Server<'a> {
    fn new(options: &'a Options) -> Result<Self> {
        let imports = match &options.profile {
            None => Imports::Eager,
            Some(path) => {
                let text = fs::read_to_string(path)
                    .with_context(|| format!("reading {}", path.display()))?;
                Imports::Profile(text.parse::<ImportProfile>()?)
            }
        };
        let pool =
            Pool::builder().interpreters(1).venv(&options.place.venv).imports(imports).build()?;
        let entry = manifest(&options.place.manifest)?
            .into_iter()
            .find(|entry| entry.name == super::MODEL)
            .with_context(|| format!("the manifest has no {}", super::MODEL))?;
        let package = pool.load_package(&entry.package)?;
        let movable = package.load_pickle(MODEL.0, MODEL.1)?;
        let cases = entry.cases()?;
        Ok(Self { options, pool, _package: package, movable, cases, workers: 0 })
    }

    /// Starts so many workers at once.
    fn grow(&mut self, count: usize) -> Result<Started> {
        let begin = cpu_seconds()?;
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
        let cpu_seconds = cpu_seconds()? - begin;
        if let Some(directory) = &self.options.settle_in {
            for interpreter in new {
                for index in 0..WARM {
                    self.call(interpreter, index)?;
                }
                interpreter.settle(directory)?;
            }
        }
        self.workers += count;
        Ok(Started { cpu_seconds })
    }

    fn serve(&self, seconds: f64, callers: usize) -> Result<Samples> {
        let interpreters = self.pool.interpreters();
        let next = AtomicUsize::new(0);
        Ok(drive(callers, Duration::from_secs_f64(seconds), |_| {
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

/// Processor time of this process, in hundredths: `USER_HZ` is 100 on x86-64 (proc_pid_stat(5)).
fn cpu_seconds() -> Result<f64> {
    let text = fs::read_to_string("/proc/self/stat").context("reading the process's times")?;
    // The name, in parentheses, may have spaces. The fields 14 and 15 are utime and stime.
    let (_, fields) = text.rsplit_once(") ").context("a name in parentheses")?;
    let times = fields.split(' ').skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
    Ok(times.sum::<f64>() / 100.0)
}
