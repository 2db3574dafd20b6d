//! How many workers with torch serve a model in a given amount of memory, and what each of them costs.
//!
//! A contender ([`kind`]) gets one worker more and more, in a process group of its own with a limit ([`hydrozoa_measure::group`]). Beside it the
//! same contender grows without a limit. Both serve by turns, so that the machine's other users disturb both. A number of
//! workers counts as served while all outputs are right and the limited side's latency stays near the other's.

mod kind;
mod pool;
mod record;
mod side;
mod starts;
mod table;

use std::path::PathBuf;
use std::thread;

use anyhow::{Result, ensure};
use hydrozoa_measure::group::Footprint;
use hydrozoa_measure::machine::Machine;
use hydrozoa_measure::samples::{Samples, median};

use crate::exported::Exported;
use crate::written;
pub use kind::Kind;
pub use pool::GrowingPool;
use record::Row;
use side::{Grown, Side};
pub use starts::Options as StartsOptions;
pub use starts::run as run_starts;

/// At most this many times the 99th percentile of the latency without a limit, for a number of workers that is served.
const SLOWER: f64 = 1.2;

/// So many numbers of workers in a row that are not served end a run.
const PATIENCE: usize = 4;

/// With so many workers the first call after idleness is measured.
const IDLE_AT: usize = 4;

/// The model that is served.
const MODEL: &str = "mobilenet_v3_small";

#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    exported: Exported,
    /// The rivals' script, benches/python/density.py
    #[arg(long)]
    worker: PathBuf,
    /// Limits of memory in GiB; each is a run of its own
    #[arg(long, value_delimiter = ',', default_values_t = [1.0, 2.0, 4.0])]
    limits: Vec<f64>,
    /// Only these contenders
    #[arg(long, value_delimiter = ',')]
    only: Vec<Kind>,
    /// The directory for settled interpreters' files, on a disk; without it that of the models
    #[arg(long, value_name = "DIR")]
    settle_in: Option<PathBuf>,
    /// The python of an environment of free-threaded CPython with torch and torchvision: its threads are one more contender
    #[arg(long, value_name = "PYTHON")]
    free: Option<PathBuf>,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// How often each number of workers is measured; medians count
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How many threads call at the same time
    #[arg(long, default_value_t = 2)]
    callers: usize,
    /// No more workers than these
    #[arg(long, default_value_t = 200)]
    most: usize,
    /// Write every measurement to this file, as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// Why a contender got no further worker.
#[derive(Debug, Clone)]
enum Stop {
    /// The kernel killed it, or a worker did not start.
    Failed(String),
    /// The latency grew beyond [`SLOWER`], or outputs were wrong.
    Slow,
    /// The option `--most`.
    Enough,
}

/// A contender's result within a limit.
struct Outcome {
    limit: f64,
    kind: Kind,
    /// The greatest number of workers that was served.
    served: usize,
    stop: Stop,
    rows: Vec<Row>,
}

pub fn run(options: &Options) -> Result<()> {
    let kinds = match options.only.as_slice() {
        [] => Kind::all(options.free.is_some()),
        only => only.to_vec(),
    };
    let plan = kind::Plan::new(options, &kinds)?;
    let mut outcomes = Vec::new();
    for &limit in &options.limits {
        for &kind in &kinds {
            outcomes.push(Run { options, plan: &plan, limit, kind }.outcome()?);
            // At once: all contenders take hours.
            if let Some(path) = &options.csv {
                written::csv(path, outcomes.iter().flat_map(|outcome| &outcome.rows))?;
            }
        }
    }
    table::print(&outcomes);
    let wrong: usize = outcomes.iter().flat_map(|outcome| &outcome.rows).map(|row| row.wrong).sum();
    ensure!(wrong == 0, "{wrong} outputs differ from plain python's");
    Ok(())
}

struct Run<'a> {
    options: &'a Options,
    plan: &'a kind::Plan,
    limit: f64,
    kind: Kind,
}

impl Run<'_> {
    /// Lets one contender grow until it stops.
    fn outcome(&self) -> Result<Outcome> {
        let bytes = (self.limit * f64::from(1 << 30)) as u64;
        eprintln!("{} in {} GiB", self.kind.label(), self.limit);
        let mut limited = Side::start(self.plan, self.kind, Some(bytes))?;
        let mut free = Side::start(self.plan, self.kind, None)?;
        let (mut rows, mut served, mut slow) = (Vec::<Row>::new(), 0, 0);
        let stop = loop {
            let workers = rows.last().map_or(0, |row| row.workers);
            if workers >= self.options.most {
                break Stop::Enough;
            }
            match self.step(&mut limited, &mut free, workers)? {
                Err(reason) => break Stop::Failed(reason),
                Ok(row) => {
                    let is_served = row.wrong == 0 && row.p99_ms <= SLOWER * row.free_p99_ms;
                    eprintln!("  {row}");
                    (served, slow) = if is_served { (row.workers, 0) } else { (served, slow + 1) };
                    rows.push(row);
                }
            }
            // A few times may be a neighbour on the machine.
            if slow == PATIENCE {
                break Stop::Slow;
            }
        };
        // One that did not start has a row too.
        if rows.is_empty() {
            let contender = self.kind.label().to_owned();
            rows.push(Row { limit_gib: self.limit, contender, ..Row::default() });
        }
        if let Some(last) = rows.last_mut() {
            last.stop = table::reason(&stop);
        }
        let outcome = Outcome { limit: self.limit, kind: self.kind, served, stop, rows };
        eprintln!("  {}", table::words(&outcome));
        Ok(outcome)
    }

    /// Grows both sides by a step and measures them. The inner error says how the limited side ended.
    fn step(
        &self,
        limited: &mut Side,
        free: &mut Side,
        workers: usize,
    ) -> Result<std::result::Result<Row, String>> {
        let before = limited.footprint()?;
        let count = (workers / 8).max(1).min(self.options.most - workers);
        // Alone, as its start is measured.
        let first = match limited.grow() {
            Ok(one) => one,
            Err(error) => return Ok(Err(limited.end(&error))),
        };
        // The others of a step start on both sides at the same time: a long run takes hours.
        let (own, others) = thread::scope(|scope| {
            let others = scope.spawn(|| (0..count).try_for_each(|_| free.grow().map(drop)));
            let own = (1..count).try_for_each(|_| limited.grow().map(drop));
            (own, others.join().expect("it does not panic"))
        });
        if let Err(error) = own {
            return Ok(Err(limited.end(&error)));
        }
        if let Err(error) = others {
            return Ok(Err(format!("without a limit: {}", free.end(&error))));
        }
        let after = limited.footprint()?;
        let (mut own, mut other) = (Vec::new(), Vec::new());
        for _ in 0..self.options.rounds {
            match limited.serve(self.options.seconds, self.options.callers) {
                Ok(samples) => own.push(samples),
                Err(error) => return Ok(Err(limited.end(&error))),
            }
            other.push(free.serve(self.options.seconds, self.options.callers)?);
        }
        let footprints = [before, after, limited.footprint()?];
        let mut row = self.row([workers, workers + count], &first, footprints, [&own, &other]);
        if row.workers == IDLE_AT {
            match limited.idle() {
                Ok(samples) => row.note_idle(samples),
                Err(error) => return Ok(Err(limited.end(&error))),
            }
        }
        Ok(Ok(row))
    }

    fn row(
        &self,
        [earlier, workers]: [usize; 2],
        first: &Grown,
        [before, after, at_last]: [Footprint; 3],
        [own, other]: [&[Samples]; 2],
    ) -> Row {
        let middle = |samples: &[Samples], of: fn(&Samples) -> f64| {
            median(&samples.iter().map(of).collect::<Vec<_>>())
        };
        let p99 = |samples: &Samples| samples.latency_ms(0.99);
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        Row {
            machine: Machine::this().words(),
            limit_gib: self.limit,
            contender: self.kind.label().to_owned(),
            workers,
            start_seconds: first.seconds,
            start_cpu_seconds: first.cpu_seconds,
            worker_mib: (mib(after.anonymous) - mib(before.anonymous)) / (workers - earlier) as f64,
            anonymous_mib: mib(at_last.anonymous),
            files_mib: mib(at_last.files),
            throughput: middle(own, Samples::throughput),
            p50_ms: middle(own, |samples| samples.latency_ms(0.5)),
            p99_ms: middle(own, p99),
            free_throughput: middle(other, Samples::throughput),
            free_p99_ms: middle(other, p99),
            wrong: own.iter().chain(other).map(|samples| samples.wrong).sum(),
            warm_ms: None,
            idle_ms: None,
            stop: String::new(),
        }
    }
}
