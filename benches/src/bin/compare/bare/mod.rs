//! The memory and start time of workers without any package: interpreters, CPython's own sub-interpreters, processes, prefork
//! children.

mod pool;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hydrozoa_measure::contender::Contender;
use hydrozoa_measure::machine::Machine;
use hydrozoa_measure::samples::median;
use serde::Serialize;

use crate::ours::Ours;
use crate::written;
pub use pool::BarePool;

#[derive(clap::Args)]
pub struct Options {
    /// The CPythons, one after the other
    #[arg(long, value_delimiter = ',', required = true)]
    python: Vec<PathBuf>,
    /// The rivals' script, benches/python/bare.py
    #[arg(long)]
    worker: PathBuf,
    /// The directory for settled interpreters' files, on a disk
    #[arg(long, value_name = "DIR")]
    settle_in: PathBuf,
    /// How many workers of each kind
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(2..))]
    workers: u16,
    /// Write the figures to this file, as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// The contender that grows.
#[derive(Clone, Copy)]
enum Kind {
    Interpreters,
    Settled,
    SubInterpreters,
    Prefork,
    Processes,
}

impl Kind {
    const ALL: [Self; 5] =
        [Self::Interpreters, Self::Settled, Self::SubInterpreters, Self::Prefork, Self::Processes];

    fn label(self) -> &'static str {
        match self {
            Self::Interpreters => "interpreters",
            Self::Settled => "interpreters, settled",
            Self::SubInterpreters => "sub-interpreters",
            Self::Prefork => "prefork with gc.freeze",
            Self::Processes => "processes",
        }
    }

    /// The first minor version of CPython 3 that has it.
    fn since(self) -> u8 {
        match self {
            Self::SubInterpreters => 12,
            _ => 0,
        }
    }

    fn command(self, options: &Options, python: &Path) -> Result<Command> {
        let rival = |name: &str| {
            let mut command = Command::new(python);
            command.arg("-I").arg(&options.worker).arg(name);
            command
        };
        Ok(match self {
            Self::Interpreters | Self::Settled => Ours::Bare(BarePool {
                python: python.to_owned(),
                settle_in: matches!(self, Self::Settled).then(|| options.settle_in.clone()),
            })
            .command()?,
            Self::SubInterpreters => rival("sub-interpreters"),
            Self::Prefork => rival("prefork"),
            Self::Processes => rival("processes"),
        })
    }
}

/// The figures of one kind, as a line of CSV and as a line of progress.
#[derive(Serialize)]
struct Row {
    machine: String,
    /// Its version, such as 3.12.
    python: String,
    contender: &'static str,
    workers: u16,
    /// Private memory with the first worker, and what each further one adds on average.
    first_mib: f64,
    further_mib: f64,
    /// Until a further worker has worked: the median.
    start_ms: f64,
}

impl fmt::Display for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { python, contender, first_mib, further_mib, start_ms, .. } = self;
        write!(
            formatter,
            "{python}, {contender}: {first_mib:.1} MiB for the first, {further_mib:.2} for a further one, ready in {start_ms:.1} ms"
        )
    }
}

pub fn run(options: &Options) -> Result<()> {
    let mut rows = Vec::new();
    for python in &options.python {
        let minor = minor(python)?;
        for kind in Kind::ALL {
            if minor < kind.since() {
                eprintln!("3.{minor} has no {} with a GIL of their own", kind.label());
                continue;
            }
            let row = measure(options, kind, python, minor)?;
            println!("{row}");
            rows.push(row);
        }
    }
    if let Some(path) = &options.csv {
        written::csv(path, rows.iter())?;
    }
    Ok(())
}

/// Lets one kind grow.
fn measure(options: &Options, kind: Kind, python: &Path, minor: u8) -> Result<Row> {
    let mut contender = Contender::ready(kind.label(), &mut kind.command(options, python)?)?;
    let (mut memory, mut starts) = (Vec::new(), Vec::new());
    for _ in 0..options.workers {
        let (took, grown) = contender.grow(1)?;
        starts.push(took.as_secs_f64() * 1e3);
        memory.push(grown.private_kib.iter().sum::<u64>() as f64 / 1024.0);
    }
    let (first, last) = (memory[0], memory[memory.len() - 1]);
    Ok(Row {
        machine: Machine::this().words(),
        python: format!("3.{minor}"),
        contender: kind.label(),
        workers: options.workers,
        first_mib: first,
        further_mib: (last - first) / (memory.len() - 1) as f64,
        start_ms: median(&starts[1..]),
    })
}

fn minor(python: &Path) -> Result<u8> {
    let asked = Command::new(python)
        .args(["-I", "-c", "import sys; print(sys.version_info.minor)"])
        .output()
        .with_context(|| format!("starting {}", python.display()))?;
    let text = String::from_utf8_lossy(&asked.stdout);
    ensure!(asked.status.success(), "{}: {}", python.display(), asked.status);
    text.trim().parse().with_context(|| format!("{}: {text:?}", python.display()))
}
