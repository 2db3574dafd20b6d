//! `hydrozoa bench`.

mod memory;

pub use memory::Further;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hydrozoa_measure::package::measure;
use hydrozoa_measure::samples::Samples;
use serde::Serialize;

use crate::{Choice, missing};

#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    choice: Choice,
    /// A torch.package archive with model/model.pkl, and model/example.pkl: the tuple of its arguments
    #[arg(required_unless_present = "memory")]
    package: Option<PathBuf>,
    /// Prints what one further interpreter takes, by owners, and the packages whose objects take the most
    #[arg(long, conflicts_with_all = ["interpreters", "threads", "seconds"])]
    memory: bool,
    /// With --memory: Python statements that each interpreter runs, such as `import numpy`; before the package, if there is
    /// one
    #[arg(long, value_name = "CODE", requires = "memory")]
    run: Option<String>,
    /// Numbers of interpreters to measure
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,4", value_parser = crate::count)]
    interpreters: Vec<NonZeroUsize>,
    /// Calling threads; by default one for each interpreter
    #[arg(long, value_name = "N", value_parser = crate::count)]
    threads: Option<NonZeroUsize>,
    /// Loads the tensors to a device, as torch.load's map_location does: cpu, cuda, cuda:1
    #[arg(long, value_name = "DEVICE")]
    map_location: Option<String>,
    /// Seconds of each measurement
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    seconds: f64,
    /// Also write the figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Measures one number of interpreters and prints the samples: what the command runs as its own child
    #[arg(long, hide = true)]
    samples: bool,
}

/// One line of the table.
#[derive(Serialize)]
struct Line {
    interpreters: usize,
    threads: usize,
    /// Calls for each second.
    throughput: f64,
    p50_ms: f64,
    p90_ms: f64,
    p99_ms: f64,
    /// Instructions in user mode for each call, in millions; nothing where the processor's counters are not to be had.
    instructions_m: Option<f64>,
    /// Switches of threads and page faults for each call.
    switches: f64,
    faults: f64,
    /// Private memory of the process in MiB.
    private_mib: f64,
    /// Private memory that each interpreter after the first adds, if the run measured a single one too.
    further_mib: Option<f64>,
}

pub fn run(options: &Options) -> Result<i32> {
    let explained = |error| missing::explained(error, &options.choice, None);
    if options.memory {
        return memory::run(options).map_err(explained);
    }
    let package = options.package.as_deref().context("no package")?;
    if options.samples {
        return print_samples(options, package).map_err(explained);
    }
    let mut lines: Vec<Line> = Vec::new();
    let mut single = None;
    for interpreters in options.interpreters.iter().map(|number| number.get()) {
        let threads = options.threads.map_or(interpreters, NonZeroUsize::get);
        let Some(samples) = in_child(options, package, interpreters, threads)? else {
            return Ok(1);
        };
        if lines.is_empty() {
            put_head();
        }
        let private_mib = samples.private_kib.iter().sum::<u64>() as f64 / 1024.0;
        if interpreters == 1 {
            single = Some(private_mib);
        }
        let line = Line {
            interpreters,
            threads,
            throughput: samples.throughput(),
            p50_ms: samples.latency_ms(0.5),
            p90_ms: samples.latency_ms(0.9),
            p99_ms: samples.latency_ms(0.99),
            instructions_m: samples
                .effort
                .instructions
                .map(|count| samples.for_each_call(count) / 1e6),
            switches: samples.for_each_call(samples.effort.switches),
            faults: samples.for_each_call(samples.effort.faults),
            private_mib,
            further_mib: single
                .filter(|_| interpreters > 1)
                .map(|single| (private_mib - single) / (interpreters - 1) as f64),
        };
        let number = |value: Option<f64>| value.map_or("-".to_owned(), |one| format!("{one:.1}"));
        say!(
            "{:>12} {:>7} {:>9.1} {:>8.2} {:>8.2} {:>8.2} {:>8} {:>8.1} {:>7.1} {:>11.1} {:>11}",
            line.interpreters,
            line.threads,
            line.throughput,
            line.p50_ms,
            line.p90_ms,
            line.p99_ms,
            number(line.instructions_m),
            line.switches,
            line.faults,
            line.private_mib,
            number(line.further_mib)
        );
        lines.push(line);
    }
    if lines.iter().any(|line| line.instructions_m.is_none()) {
        say!(
            "instructions are not counted: this machine gives no counters of the processor (perf_event_open(2))"
        );
    }
    if let Some(path) = &options.json {
        std::fs::write(path, serde_json::to_string_pretty(&lines)?)
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(0)
}

fn put_head() {
    say!(
        "{:>12} {:>7} {:>9} {:>8} {:>8} {:>8} {:>8} {:>8} {:>7} {:>11} {:>11}",
        "interpreters",
        "threads",
        "calls/s",
        "p50 ms",
        "p90 ms",
        "p99 ms",
        "M instr",
        "switches",
        "faults",
        "private MiB",
        "further MiB"
    );
}

/// Measures each number of interpreters in a process of its own. Memory is a figure of a process, and it would
/// include what an earlier pool leaves mapped. `None` if that process has said why it failed.
fn in_child(
    options: &Options,
    package: &Path,
    interpreters: usize,
    threads: usize,
) -> Result<Option<Samples>> {
    let mut command = Command::new(std::env::current_exe().context("finding this program")?);
    command.args([
        "bench",
        "--samples",
        "--interpreters",
        &interpreters.to_string(),
        "--threads",
        &threads.to_string(),
    ]);
    command.args(["--seconds", &options.seconds.to_string()]);
    if let Some(device) = &options.map_location {
        command.args(["--map-location", device]);
    }
    if let Some(python) = &options.choice.python {
        command.arg("--python").arg(python);
    }
    if let Some(venv) = &options.choice.venv {
        command.arg("--venv").arg(venv);
    }
    let output = command
        .arg("--")
        .arg(package)
        .stderr(Stdio::inherit())
        .output()
        .context("starting this program again")?;
    match output.status.code() {
        Some(0) => serde_json::from_slice(&output.stdout).context("reading the samples"),
        Some(1) => Ok(None),
        _ => bail!("measuring {interpreters} interpreters failed: {}", output.status),
    }
}

fn print_samples(options: &Options, package: &Path) -> Result<i32> {
    let interpreters =
        options.interpreters.first().context("--interpreters names no number")?.get();
    let pool = options.choice.pool(interpreters)?;
    let threads = options.threads.map_or(interpreters, NonZeroUsize::get);
    let samples = measure(
        &pool,
        package,
        options.map_location.as_deref(),
        threads,
        Duration::from_secs_f64(options.seconds),
    )?;
    say!("{}", serde_json::to_string(&samples)?);
    Ok(0)
}
