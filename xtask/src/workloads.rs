//! `cargo xtask workloads`: six pieces of work by interpreters, threads, processes and prefork children.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::environment::{self, Environment};
use crate::{cache, workspace};

/// Options of `cargo xtask workloads`.
#[derive(clap::Args, Clone)]
pub struct Arguments {
    #[command(flatten)]
    environment: environment::Arguments,
    /// Only these pieces of work: transformer, features, documents, dlrm, records, resnet18
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Seconds of each measurement
    #[arg(long, value_name = "S", default_value_t = 1.0)]
    seconds: f64,
    /// How often everything is measured; medians are reported
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// Also write the figures to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Sets up, measures and compares. Returns an error if a result differs.
pub fn run(arguments: &Arguments) -> Result<()> {
    let environment = Environment::prepare(&arguments.environment)?.with_workloads()?;
    let compare = workspace::build("hydrozoa-benches", "compare")?;
    let mut command = comparison(&compare, &environment)?;
    command.args(["--seconds", &arguments.seconds.to_string()]);
    command.args(["--rounds", &arguments.rounds.to_string()]);
    if !arguments.only.is_empty() {
        command.args(["--only", &arguments.only.join(",")]);
    }
    if let Some(path) = &arguments.json {
        command.arg("--json").arg(path);
    }
    let status = command.status().context("starting the comparison")?;
    if !status.success() {
        bail!("the comparison failed");
    }
    Ok(())
}

/// A few seconds of the work that needs numpy alone.
pub fn short(compare: &Path, environment: &Environment) -> Result<Command> {
    let mut command = comparison(compare, environment)?;
    command.args(["--only", "documents,records", "--seconds", "0.1", "--rounds", "2"]);
    Ok(command)
}

/// The comparison's command line without times and rounds.
fn comparison(compare: &Path, environment: &Environment) -> Result<Command> {
    let folder = cache::root()?.join(format!("work-cp3{}", environment.base().minor));
    let mut command = Command::new(compare);
    command.arg("workloads").arg("--venv").arg(environment.root());
    command.arg("--scripts").arg(workspace::root().join("benches/python"));
    command.arg("--folder").arg(folder);
    Ok(command)
}
