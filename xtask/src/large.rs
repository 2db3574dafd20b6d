//! `cargo xtask weights`, `race`, `mixed` and `control`: checks of promises about packages, movables and pools that take minutes.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::environment::{self, Environment};
use crate::{cache, workspace};

/// Options of `cargo xtask weights`.
#[derive(clap::Args, Clone)]
pub struct Weights {
    #[command(flatten)]
    environment: environment::Arguments,
    /// How often the task times the first output
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
}

/// Options of `cargo xtask race`.
#[derive(clap::Args, Clone)]
pub struct Race {
    #[command(flatten)]
    environment: environment::Arguments,
    /// How long, in minutes
    #[arg(long, value_name = "M", default_value_t = 5.0)]
    minutes: f64,
    /// Each interpreter has a libtorch of its own
    #[arg(long)]
    isolated: bool,
}

/// Options of `cargo xtask mixed`.
#[derive(clap::Args, Clone)]
pub struct Mixed {
    #[command(flatten)]
    environment: environment::Arguments,
    /// How long, in minutes
    #[arg(long, value_name = "M", default_value_t = 10.0)]
    minutes: f64,
}

/// Options of `cargo xtask control`.
#[derive(clap::Args, Clone)]
pub struct Control {
    #[command(flatten)]
    environment: environment::Arguments,
    /// How many calls are stopped, a quarter of them in each way
    #[arg(long, value_name = "N", default_value_t = 1000)]
    rounds: usize,
    /// Each interpreter imports torch before it serves
    #[arg(long)]
    torch: bool,
}

/// Sets up and measures. Returns an error if a promise is broken.
pub fn weights(arguments: &Weights) -> Result<()> {
    let environment = Environment::prepare(&arguments.environment)?;
    let compare = workspace::build("hydrozoa-benches", "compare")?;
    ran(&mut weights_command(&compare, &environment, arguments.rounds)?)
}

/// Sets up and runs the race. Returns an error if something hangs, leaks or differs.
pub fn race(arguments: &Race) -> Result<()> {
    let environment = Environment::prepare(&arguments.environment)?;
    let compare = workspace::build("hydrozoa-benches", "compare")?;
    ran(&mut race_command(&compare, &environment, arguments.minutes * 60.0, arguments.isolated))
}

/// Sets up and runs the mixed load. Returns an error if anything is lost, wrong or stuck, or if memory grows.
pub fn mixed(arguments: &Mixed) -> Result<()> {
    let environment = Environment::prepare(&arguments.environment)?;
    let compare = workspace::build("hydrozoa-benches", "compare")?;
    ran(&mut mixed_command(&compare, &environment, arguments.minutes * 60.0))
}

/// Sets up and stops calls. Returns an error if one goes on, or ends in another way than it should.
pub fn control(arguments: &Control) -> Result<()> {
    let environment = Environment::prepare(&arguments.environment)?;
    let compare = workspace::build("hydrozoa-benches", "compare")?;
    let mut command = Command::new(compare);
    command.arg("control").arg("--venv").arg(environment.root()).env("OMP_NUM_THREADS", "1");
    command.args(["--rounds", &arguments.rounds.to_string()]);
    if arguments.torch {
        command.arg("--torch");
    }
    ran(&mut command)
}

/// The command of the mixed load.
pub fn mixed_command(compare: &Path, environment: &Environment, seconds: f64) -> Command {
    let mut command = Command::new(compare);
    command.arg("mixed").arg("--venv").arg(environment.root());
    command.args(["--seconds", &seconds.to_string()]).env("OMP_NUM_THREADS", "1");
    command
}

/// The command of the measurement, with the package that it needs.
pub fn weights_command(
    compare: &Path,
    environment: &Environment,
    rounds: usize,
) -> Result<Command> {
    let script = workspace::root().join("benches/python/weights.py");
    let name = environment.root().file_name().context("an environment has a name")?;
    let folder = cache::root()?.join("weights").join(name);
    let package = folder.join("encoder.pt");
    if !folder.join("encoder.expected").exists() || !package.exists() {
        eprintln!("exporting a model of BERT-base's size, 440 MB");
        let status = environment.python().arg(&script).arg("export").arg(&folder).status()?;
        if !status.success() {
            bail!("exporting failed: {status}");
        }
    }
    let mut command = Command::new(compare);
    command.arg("weights").arg("--package").arg(package).arg("--script").arg(script);
    command.arg("--venv").arg(environment.root()).args(["--rounds", &rounds.to_string()]);
    Ok(command)
}

/// The command of the race.
pub fn race_command(
    compare: &Path,
    environment: &Environment,
    seconds: f64,
    isolated: bool,
) -> Command {
    let mut command = Command::new(compare);
    command.arg("race").arg("--venv").arg(environment.root());
    command.args(["--seconds", &seconds.to_string()]).env("OMP_NUM_THREADS", "1");
    if isolated {
        command.arg("--isolated");
    }
    command
}

fn ran(command: &mut Command) -> Result<()> {
    let status = command.env("OMP_NUM_THREADS", "1").status().context("starting it")?;
    if !status.success() {
        bail!("a promise was not kept");
    }
    Ok(())
}
