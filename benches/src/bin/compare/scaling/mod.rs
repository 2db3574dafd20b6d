//! One packaged model called by several threads at once: on one interpreter, on one interpreter each, in processes, in
//! prefork children, and as TorchScript from Rust. The figure of the paper on torch::deploy that shows how each scales.

mod pool;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use hydrozoa_measure::samples::{Samples, median, percentile};
pub use pool::Options as PoolOptions;
pub use pool::run as run_pool;
use serde::Serialize;

use crate::field::Field;
use crate::machine::Machine;
use crate::measured::{self, Measured, ratios};

/// Numbers of callers, as in the paper's figure.
const CALLERS: [usize; 3] = [1, 2, 4];

/// Workers of the contenders that have one for each caller.
const WORKERS: usize = CALLERS[CALLERS.len() - 1];

/// Where the model is, and what calls it.
#[derive(clap::Args, Clone)]
pub struct Place {
    /// The model's name in the catalogue
    #[arg(long)]
    model: String,
    /// The package, with model/model.pkl and model/example.pkl
    #[arg(long)]
    package: PathBuf,
    /// The bytes that plain python made of the model's result
    #[arg(long)]
    expected: PathBuf,
    /// The folder of check.py, which makes them, and of catalogue.py
    #[arg(long)]
    catalogue: PathBuf,
    /// The virtual environment with torch
    #[arg(long)]
    venv: PathBuf,
    /// The virtual environment that has the models' implementations too, for the rivals
    #[arg(long)]
    models: PathBuf,
    /// The folder of scaling.py, benches/python
    #[arg(long)]
    scripts: PathBuf,
}

#[derive(clap::Args)]
pub struct Options {
    #[command(flatten)]
    place: Place,
    /// The model draws random numbers from one generator for each interpreter: one caller at a time, and no more
    #[arg(long)]
    draws: bool,
    /// The program that calls TorchScript, the folder of libtorch, the module and the bytes of its result
    #[arg(long, num_args = 4, value_names = ["PROGRAM", "LIBTORCH", "MODULE", "EXPECTED"])]
    scripted: Option<Vec<PathBuf>>,
    /// Seconds of each measurement
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// How often everything is measured; medians are reported
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// A contender with a number of callers: medians over the rounds.
#[derive(Debug, Serialize)]
struct Row {
    machine: String,
    contender: String,
    callers: usize,
    /// Calls for each second, of all callers.
    throughput: f64,
    /// That over the throughput of one process in the same round: median, least and greatest.
    ratio: f64,
    least: f64,
    greatest: f64,
    p50_ms: f64,
    p99_ms: f64,
    calls: usize,
    wrong: usize,
}

/// Prints the rows as one line of JSON.
pub fn run(options: &Options) -> Result<()> {
    let mut field = start(options)?;
    let measured = measured::in_turns(&mut field, "", options.rounds, options.seconds)?;
    let base = measured.iter().find(|one| (one.line.kind, one.line.count) == ("processes", 1));
    let machine = Machine::this().words();
    let rows: Vec<Row> = measured.iter().map(|one| Row::new(&machine, one, base)).collect();
    println!("{}", serde_json::to_string(&rows)?);
    Ok(())
}

impl Row {
    fn new(machine: &str, one: &Measured, base: Option<&Measured>) -> Self {
        let ratios = ratios(Some(one), base);
        Self {
            machine: machine.to_owned(),
            contender: one.line.label.clone(),
            callers: one.line.count,
            throughput: one.median(Samples::throughput),
            ratio: median(&ratios),
            least: percentile(&ratios, 0.0),
            greatest: percentile(&ratios, 1.0),
            p50_ms: one.median(|samples| samples.latency_ms(0.5)),
            p99_ms: one.median(|samples| samples.latency_ms(0.99)),
            calls: one.calls(),
            wrong: one.wrong(),
        }
    }
}

/// Starts all contenders, which stay for all numbers of callers.
fn start(options: &Options) -> Result<Field> {
    let place = &options.place;
    let mut field = Field::default();
    let one = field.add("1 interpreter", &mut place.pool(1)?)?;
    let each = field.add(&format!("{WORKERS} interpreters"), &mut place.pool(WORKERS)?)?;
    let processes = (0..WORKERS)
        .map(|number| field.add(&format!("python process {number}"), &mut place.python()))
        .collect::<Result<Vec<_>>>()?;
    let mut prefork = place.python();
    let prefork = field.add("prefork server", prefork.args(["--prefork", &WORKERS.to_string()]))?;
    let scripted = match options.scripted.as_deref() {
        Some([program, libtorch, module, expected]) => {
            let mut command = Command::new(program);
            command.arg(module).arg(expected).env("LD_LIBRARY_PATH", libtorch);
            Some(field.add("TorchScript", &mut command)?)
        }
        _ => None,
    };
    for callers in CALLERS {
        if callers == 1 || !options.draws {
            field.line("one interpreter", "threads", callers, vec![one], callers);
        }
        field.line("interpreters", "interpreters", callers, vec![each], callers);
        field.line("processes", "processes", callers, processes[..callers].to_vec(), 1);
        field.line("prefork", "prefork", callers, vec![prefork], 1);
        if let Some(scripted) = scripted {
            field.line("TorchScript", "scripted", callers, vec![scripted], callers);
        }
    }
    Ok(field)
}

impl Place {
    /// This program as a pool that answers orders.
    fn pool(&self, interpreters: usize) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe().context("finding this program")?);
        command.args(["scaling-pool", "--interpreters", &interpreters.to_string()]);
        command.args(["--model", &self.model]);
        for (name, path) in [
            ("--package", &self.package),
            ("--expected", &self.expected),
            ("--catalogue", &self.catalogue),
            ("--venv", &self.venv),
            ("--models", &self.models),
            ("--scripts", &self.scripts),
        ] {
            command.arg(name).arg(path);
        }
        Ok(command)
    }

    /// A contender in plain python. More arguments may follow.
    fn python(&self) -> Command {
        let mut command = Command::new(self.models.join("bin/python"));
        command.arg(self.scripts.join("scaling.py")).arg(&self.model);
        command.args([&self.expected, &self.catalogue]);
        for name in ["PYTHONPATH", "PYTHONHOME"] {
            command.env_remove(name);
        }
        command
    }
}
