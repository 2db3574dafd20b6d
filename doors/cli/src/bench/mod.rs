//! `hydrozoa bench`.

mod memory;

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use hydrozoa_measure::package::measure;
use hydrozoa_measure::samples::Samples;
use serde_json::{Map, Value, json};

use crate::{Choice, missing_module};

#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    choice: Choice,
    /// A torch.package archive with model/model.pkl, and model/example.pkl: the tuple of its arguments
    #[arg(required_unless_present = "memory")]
    package: Option<PathBuf>,
    /// Print the memory that one further interpreter takes, by owners, and the packages whose objects take the most
    #[arg(long, conflicts_with_all = ["interpreters", "threads", "seconds"])]
    memory: bool,
    /// With --memory: Python statements that each interpreter runs, such as `import numpy`; before the package, if there is
    /// one
    #[arg(long, value_name = "CODE", requires = "memory")]
    run: Option<String>,
    /// The numbers of interpreters to measure
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,4", value_parser = crate::count)]
    interpreters: Vec<NonZeroUsize>,
    /// Calling threads; by default one for each interpreter
    #[arg(long, value_name = "N", value_parser = crate::count)]
    threads: Option<NonZeroUsize>,
    /// Load the tensors to a device, as torch.load's map_location does: cpu, cuda, cuda:1
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

/// A figure of a line in the table: its head there, the digits behind its point, its name in JSON, and itself.
type Figure = (&'static str, usize, &'static str, Value);

/// The figures of a measurement. `single` is the private memory in MiB that a single interpreter had.
fn figures(
    samples: &Samples,
    interpreters: usize,
    threads: usize,
    private: f64,
    single: Option<f64>,
) -> [Figure; 11] {
    let effort = &samples.effort;
    let instructions = effort.instructions.map(|count| samples.for_each_call(count) / 1e6);
    let further = single
        .filter(|_| interpreters > 1)
        .map(|single| (private - single) / (interpreters - 1) as f64);
    [
        ("interpreters", 0, "interpreters", json!(interpreters)),
        ("threads", 0, "threads", json!(threads)),
        ("calls/s", 1, "throughput", json!(samples.throughput())),
        ("p50 ms", 2, "p50_ms", json!(samples.latency_ms(0.5))),
        ("p90 ms", 2, "p90_ms", json!(samples.latency_ms(0.9))),
        ("p99 ms", 2, "p99_ms", json!(samples.latency_ms(0.99))),
        ("M instr", 1, "instructions_m", json!(instructions)),
        ("switches", 1, "switches", json!(samples.for_each_call(effort.switches))),
        ("faults", 1, "faults", json!(samples.for_each_call(effort.faults))),
        ("private MiB", 1, "private_mib", json!(private)),
        ("further MiB", 1, "further_mib", json!(further)),
    ]
}

/// Words of a line, below each other in all lines.
fn aligned(figures: &[Figure], word: impl Fn(&Figure) -> String) -> String {
    let words = figures.iter().map(|figure| format!("{:>1$}", word(figure), figure.0.len().max(9)));
    words.collect::<Vec<_>>().join(" ")
}

pub fn run(options: &Options) -> Result<i32> {
    let explained = |error| missing_module::explained(error, &options.choice, None);
    if options.memory {
        return memory::run(options).map_err(explained);
    }
    let package = options.package.as_deref().context("no package")?;
    if options.samples {
        return print_samples(options, package).map_err(explained);
    }
    let mut lines: Vec<Map<String, Value>> = Vec::new();
    let mut single = None;
    for interpreters in options.interpreters.iter().map(|number| number.get()) {
        let threads = options.threads.map_or(interpreters, NonZeroUsize::get);
        let Some(samples) = in_child(options, package, interpreters, threads)? else {
            return Ok(1);
        };
        let private = samples.private_kib.iter().sum::<u64>() as f64 / 1024.0;
        if interpreters == 1 {
            single = Some(private);
        }
        let figures = figures(&samples, interpreters, threads, private, single);
        if lines.is_empty() {
            say!("{}", aligned(&figures, |(head, ..)| (*head).to_owned()));
        }
        let shown = |(_, digits, _, value): &Figure| match value.as_f64() {
            Some(number) => format!("{number:.digits$}"),
            None => "-".to_owned(),
        };
        say!("{}", aligned(&figures, shown));
        lines.push(Map::from_iter(figures.map(|(_, _, name, value)| (name.to_owned(), value))));
    }
    if lines.iter().any(|line| line["instructions_m"].is_null()) {
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
