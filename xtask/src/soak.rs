//! `cargo xtask soak`: does private memory grow with use?

use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::environment::{self, Environment};
use crate::{demo, workspace};

/// Options of `cargo xtask soak`.
#[derive(clap::Args, Clone)]
pub struct Arguments {
    #[command(flatten)]
    environment: environment::Arguments,
    /// How long, in minutes
    #[arg(long, value_name = "M", default_value_t = 10.0)]
    minutes: f64,
}

/// Sets up and runs the soak. Returns an error if an output differs or memory grows.
pub fn run(arguments: &Arguments) -> Result<()> {
    let environment = Environment::prepare(&arguments.environment)?;
    let compare = workspace::build("hydrozoa-benches", "compare")?;
    let models = demo::export(&environment)?;
    let mut command = Command::new(compare);
    command.arg("soak").arg("--manifest").arg(models.join("manifest.json"));
    command.arg("--venv").arg(environment.root());
    command.args(["--seconds", &(arguments.minutes * 60.0).to_string()]);
    let status = command.env("OMP_NUM_THREADS", "1").status().context("starting the soak")?;
    if !status.success() {
        bail!("the soak failed");
    }
    Ok(())
}
