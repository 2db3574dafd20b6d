//! `cargo xtask density`: how many workers with torch serve a model in a given amount of memory, and what each costs.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::environment::{self, Environment};
use crate::{demo, workspace};

/// Options of `cargo xtask density`.
#[derive(clap::Args, Clone)]
pub struct Arguments {
    #[command(flatten)]
    environment: environment::Arguments,
    /// Write every measurement to this file, as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Options of `compare density`, after `--`: limits, contenders, seconds, rounds
    #[arg(last = true, value_name = "OPTION")]
    options: Vec<String>,
}

/// Sets up, exports the model and compares. Needs the right to make control groups. Returns an error if an output differs.
pub fn run(arguments: &Arguments) -> Result<()> {
    let environment = Environment::prepare(&arguments.environment)?;
    let compare = workspace::build("hydrozoa-benches", "compare")?;
    let models = demo::export(&environment)?;
    let mut command = Command::new(compare);
    command.arg("density").arg("--manifest").arg(models.join("manifest.json"));
    command.arg("--venv").arg(environment.root());
    command.arg("--worker").arg(workspace::root().join("benches/python/density.py"));
    if let Some(path) = &arguments.csv {
        command.arg("--csv").arg(path);
    }
    let status = command.args(&arguments.options).status().context("starting the comparison")?;
    if !status.success() {
        bail!("the comparison failed");
    }
    Ok(())
}
