//! The promised speed of calls, beside PyO3 in the same process (`benches/pyo3`).

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::environment::{self, Environment};
use crate::{beside_pyo3, python, workspace};

/// Makes every measurement. Returns which of them keep their promises.
pub fn measure(arguments: &environment::Arguments, torch: bool) -> Result<Vec<bool>> {
    let python = python::find(arguments.python.as_ref())?;
    let mut build = beside_pyo3::cargo(&python)?;
    build.args(["build", "--release", "--package", "hydrozoa-pyo3"]);
    let program = workspace::executable(&mut build, "hydrozoa-pyo3")?;
    let mut kept = vec![run(&program, &Environment::with_numpy(python.clone())?, &[])?];
    if torch {
        kept.push(run(&program, &Environment::with_torch(python)?, &["--torch"])?);
    }
    Ok(kept)
}

fn run(program: &Path, environment: &Environment, options: &[&str]) -> Result<bool> {
    let mut command = Command::new(program);
    command.arg("--venv").arg(environment.root()).args(options).env("OMP_NUM_THREADS", "1");
    Ok(command.status().context("starting a measurement")?.success())
}
