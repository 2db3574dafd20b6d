//! `cargo xtask gpu`: compares interpreters with processes on a GPU.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::environment::{self, Environment};
use crate::workspace;

/// Options of `cargo xtask gpu`.
#[derive(clap::Args, Clone)]
pub struct Arguments {
    #[command(flatten)]
    environment: environment::Arguments,
    /// How many interpreters, and how many processes
    #[arg(long, value_name = "N,…", default_value = "1,4,8")]
    counts: String,
    /// Seconds of each measurement
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    seconds: f64,
    /// How often the task starts and measures everything
    #[arg(long, value_name = "N", default_value_t = 1)]
    rounds: usize,
    /// Also write the figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Sets up and measures. If torch sees no GPU, the error says so.
pub fn run(arguments: &Arguments) -> Result<()> {
    let environment = Environment::prepare(&arguments.environment)?;
    let compare = workspace::build("hydrozoa-benches", "compare")?;
    let mut command = command(&compare, &environment);
    command.args(["--counts", &arguments.counts, "--seconds", &arguments.seconds.to_string()]);
    command.args(["--rounds", &arguments.rounds.to_string()]);
    if let Some(path) = &arguments.json {
        command.arg("--json").arg(path);
    }
    if !command.status().context("starting it")?.success() {
        bail!("the comparison on a GPU failed");
    }
    Ok(())
}

/// The comparison on the smallest model, in main memory instead of a GPU's. It checks that the comparison works, not
/// its speed.
pub fn rehearsal(compare: &Path, environment: &Environment) -> Command {
    let mut command = command(compare, environment);
    command.args(["--device", "cpu", "--counts", "1,2", "--seconds", "0.5", "--layers", "1"]);
    command
}

fn command(compare: &Path, environment: &Environment) -> Command {
    let mut command = Command::new(compare);
    command.arg("gpu").arg("--venv").arg(environment.root());
    command
}
