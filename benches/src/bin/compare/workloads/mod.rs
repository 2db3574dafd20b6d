//! Six pieces of work by interpreters, threads, processes and prefork children: two workers each, in the same rounds.
//!
//! The work is in benches/python/workloads. All contenders run the same code, and each of their results is compared with that
//! of plain python.

mod pool;
mod table;
mod work;

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use hydrozoa_measure::contender::with_one_thread;
pub use pool::WorkPool;
use work::{Work, WorkFiles};

use crate::field::Field;
use crate::measured::{self, Measured};
use crate::ours::Ours;
use crate::written;

/// Workers of each contender.
const WORKERS: usize = 2;

#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    files: WorkFiles,
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
    let report = table::Report::new(&measured, options.seconds, options.rounds);
    report.print();
    written::json(options.json.as_deref(), &report)?;
    ensure!(report.wrong() == 0, "{} results differ from plain python's", report.wrong());
    Ok(())
}

/// Measures all contenders on one piece of work. They end with it: six libraries' memory in one run would be too much.
fn compare(options: &Options, work: Work) -> Result<Vec<Measured>> {
    std::fs::create_dir_all(&options.files.folder)
        .with_context(|| format!("creating {}", options.files.folder.display()))?;
    // Its results are those of contenders with one thread, too.
    let mut prepare = options.files.python(work);
    let status = with_one_thread(&mut prepare).arg("--prepare").status();
    let status = status.context("starting python")?;
    ensure!(status.success(), "plain python does not do the work: {status}");
    let mut field = start(options, work)?;
    measured::in_turns(&mut field, work.name(), options.rounds, options.seconds)
}

fn start(options: &Options, work: Work) -> Result<Field> {
    let mut field = Field::default();
    let python = || options.files.python(work);
    let (processes, prefork) = field.add_processes(WORKERS, python)?;
    let threaded = field.add("python process with threads", &mut python())?;
    field.line("1 process", "processes", 1, processes[..1].to_vec(), 1);
    for count in [1, WORKERS] {
        let name = format!("{count} interpreter{}", if count == 1 { "" } else { "s" });
        let files = options.files.clone();
        let pool = Ours::Work(WorkPool { files, work, interpreters: count });
        let contender = field.add(&name, &mut pool.command()?)?;
        field.line(name, "interpreters", count, vec![contender], count);
    }
    field.line("2 threads", "process-threads", WORKERS, vec![threaded], WORKERS);
    field.line("2 processes", "processes", WORKERS, processes, 1);
    field.line("2 prefork children", "prefork", WORKERS, vec![prefork], 1);
    Ok(field)
}
