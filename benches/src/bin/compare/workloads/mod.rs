//! Six pieces of work by interpreters, threads, processes and prefork children: two workers each, in the same rounds.
//!
//! The work is in benches/python/workloads. All contenders run the same code, and each of their results is compared with that
//! of plain python.

mod pool;
mod table;
mod work;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
pub use pool::Options as PoolOptions;
pub use pool::run as run_pool;
use work::{Place, Work};

use crate::field::Field;
use crate::measured::{self, Measured};

/// Workers of each contender.
const WORKERS: usize = 2;

#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    place: Place,
    /// Only these pieces of work
    #[arg(long, value_delimiter = ',')]
    only: Vec<Work>,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// How often everything is measured; medians are reported
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Also write the figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub fn run(options: &Options) -> Result<()> {
    let works = if options.only.is_empty() { Work::all() } else { options.only.clone() };
    let mut measured = Vec::new();
    for work in &works {
        eprintln!("{}", work.title());
        measured.extend(compare(options, *work).with_context(|| work.title())?);
    }
    let report = table::Report::new(&works, &measured, options.seconds, options.rounds);
    report.print();
    if let Some(path) = &options.json {
        let text = serde_json::to_string_pretty(&report)?;
        std::fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    ensure!(report.wrong() == 0, "{} results differ from plain python's", report.wrong());
    Ok(())
}

/// Measures all contenders on one piece of work. They end with it: six libraries' memory in one run would be too much.
fn compare(options: &Options, work: Work) -> Result<Vec<Measured>> {
    std::fs::create_dir_all(&options.place.folder)
        .with_context(|| format!("creating {}", options.place.folder.display()))?;
    // Its results are those of contenders with one thread, too.
    let mut prepare = options.place.python(work);
    let status =
        hydrozoa_measure::contender::with_one_thread(&mut prepare).arg("--prepare").status();
    let status = status.context("starting python")?;
    ensure!(status.success(), "plain python does not do the work: {status}");
    let mut field = start(options, work)?;
    measured::in_turns(&mut field, work.name(), options.rounds, options.seconds)
}

fn start(options: &Options, work: Work) -> Result<Field> {
    let mut field = Field::default();
    let processes = (0..WORKERS)
        .map(|number| {
            field.add(&format!("python process {number}"), &mut options.place.python(work))
        })
        .collect::<Result<Vec<_>>>()?;
    let name = "python process with threads";
    let threaded = field.add(name, &mut options.place.python(work))?;
    let workers = WORKERS.to_string();
    let mut prefork = options.place.python(work);
    let prefork = field.add("prefork server", prefork.args(["--prefork", &workers]))?;
    field.line("1 process", "processes", 1, processes[..1].to_vec(), 1);
    for count in [1, WORKERS] {
        let name = format!("{count} interpreter{}", if count == 1 { "" } else { "s" });
        let contender = field.add(&name, &mut pool(options, work, count)?)?;
        field.line(name, "interpreters", count, vec![contender], count);
    }
    field.line("2 threads", "process-threads", WORKERS, vec![threaded], WORKERS);
    field.line("2 processes", "processes", WORKERS, processes, 1);
    field.line("2 prefork children", "prefork", WORKERS, vec![prefork], 1);
    Ok(field)
}

/// This program as a pool that answers orders.
fn pool(options: &Options, work: Work, interpreters: usize) -> Result<Command> {
    let Place { venv, scripts, folder } = &options.place;
    let mut command = Command::new(std::env::current_exe().context("finding this program")?);
    command.args(["workload-pool", "--work", work.name()]);
    command.args(["--interpreters", &interpreters.to_string()]);
    for (name, path) in [("--venv", venv), ("--scripts", scripts), ("--folder", folder)] {
        command.arg(name).arg(path);
    }
    Ok(command)
}
