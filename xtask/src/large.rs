//! `cargo xtask weights`, `race`, `stress` and `control`: checks of promises about packages, movables and pools that take minutes.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::environment::{self, Environment};
use crate::{cache, python, workspace};

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
}

/// Options of `cargo xtask stress`.
#[derive(clap::Args, Clone)]
pub struct Stress {
    #[command(flatten)]
    environment: environment::Arguments,
    /// Nothing but the standard library
    #[arg(long, conflicts_with_all = ["torch", "venv"])]
    bare: bool,
    /// Each operation begins with tensors of torch
    #[arg(long)]
    torch: bool,
    /// A virtual environment with numpy, or torch; without it one is made
    #[arg(long, value_name = "DIR", conflicts_with = "python")]
    venv: Option<PathBuf>,
    /// How long, in minutes
    #[arg(long, value_name = "M", default_value_t = 10.0)]
    minutes: f64,
    /// The seed that an earlier run has printed
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Only these operations, or all but these: `-- --only calls,pools`, `-- --without forks`
    #[arg(last = true)]
    operations: Vec<String>,
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
    ran(&mut race_command(&compare, &environment, arguments.minutes * 60.0))
}

/// Runs the stress. Returns an error if anything is lost, wrong or stuck, or if memory grows.
pub fn stress(arguments: &Stress) -> Result<()> {
    let wanted = arguments.environment.python.as_ref();
    let root = match &arguments.venv {
        Some(root) => Some(root.clone()),
        None if arguments.bare => None,
        None if arguments.torch => {
            Some(Environment::prepare(&arguments.environment)?.root().into())
        }
        None => Some(Environment::with_numpy(python::find(wanted)?)?.root().into()),
    };
    let compare = workspace::build("hydrozoa-benches", "compare")?;
    let mut command = match root {
        Some(root) => stress_command(&compare, &root, arguments.minutes * 60.0),
        None => {
            let python = python::find(wanted)?.executable;
            let mut command = Command::new(compare);
            command.args(["stress", "--seconds", &(arguments.minutes * 60.0).to_string()]);
            command.arg("--python").arg(python);
            command
        }
    };
    if arguments.torch {
        command.arg("--torch");
    }
    if let Some(seed) = arguments.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    ran(command.args(&arguments.operations))
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

/// The command of the stress, with the packages of a virtual environment.
pub fn stress_command(compare: &Path, venv: &Path, seconds: f64) -> Command {
    let mut command = Command::new(compare);
    command.arg("stress").arg("--venv").arg(venv).args(["--seconds", &seconds.to_string()]);
    command.env("OMP_NUM_THREADS", "1");
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
pub fn race_command(compare: &Path, environment: &Environment, seconds: f64) -> Command {
    let mut command = Command::new(compare);
    command.arg("race").arg("--venv").arg(environment.root());
    command.args(["--seconds", &seconds.to_string()]).env("OMP_NUM_THREADS", "1");
    command
}

fn ran(command: &mut Command) -> Result<()> {
    let status = command.env("OMP_NUM_THREADS", "1").status().context("starting it")?;
    if !status.success() {
        bail!("a promise was not kept");
    }
    Ok(())
}
