//! `cargo xtask demo`: sets up and runs the two models on interpreters, threads and processes, and prints a table.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::environment::{self, Environment};
use crate::{cache, workspace};

/// Options of `cargo xtask demo`.
#[derive(clap::Args, Clone)]
pub struct Arguments {
    #[command(flatten)]
    environment: environment::Arguments,
    /// Also write the figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Seconds of each measurement
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
    /// How often everything is measured; medians are reported
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
}

/// Sets up, exports, measures and compares; an error if any output differs.
pub fn run(arguments: &Arguments) -> Result<()> {
    let environment = Environment::prepare(&arguments.environment)?;
    let compare = workspace::build("hydrozoa-benches", "compare")?;
    let models = export(&environment)?;
    let mut command = comparison(&compare, &environment, &models);
    command.args([
        "--seconds",
        &arguments.seconds.to_string(),
        "--rounds",
        &arguments.rounds.to_string(),
    ]);
    if let Some(path) = &arguments.json {
        command.arg("--json").arg(path);
    }
    let status = command.status().context("starting the comparison")?;
    if !status.success() {
        bail!("the comparison failed");
    }
    Ok(())
}

/// Exports the models and the outputs that plain python computes with them. It takes a few seconds and is done each
/// time: the bits of a result may depend on the processor, and the cache may come from another one.
pub fn export(environment: &Environment) -> Result<PathBuf> {
    eprintln!("exporting the models with stock torch.package");
    let folder = cache::root()?.join(format!("models-cp3{}", environment.base().minor));
    let status = environment
        .python()
        .arg(workspace::root().join("benches/python/export.py"))
        .arg(&folder)
        .env("OMP_NUM_THREADS", "1")
        .status()
        .context("starting python")?;
    if !status.success() {
        bail!("exporting the models failed: {status}");
    }
    Ok(folder)
}

/// The comparison's command line without times and rounds.
pub fn comparison(compare: &Path, environment: &Environment, models: &Path) -> Command {
    beside_rivals(compare, "run", "worker.py", environment, models)
}

/// The command line of a role of `compare` beside rivals, whose script is in benches/python.
pub fn beside_rivals(
    compare: &Path,
    role: &str,
    script: &str,
    environment: &Environment,
    models: &Path,
) -> Command {
    let mut command = Command::new(compare);
    command.arg(role).arg("--manifest").arg(models.join("manifest.json"));
    command.arg("--venv").arg(environment.root());
    command.arg("--worker").arg(workspace::root().join("benches/python").join(script));
    command
}
