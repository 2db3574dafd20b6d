//! The promised speed of calls, beside PyO3 in the same process (`benches/pyo3`).

use std::process::Command;

use anyhow::{Context, Result};

use crate::environment::{self, Environment};
use crate::{beside_pyo3, python, workspace};

/// Makes the measurement. Returns whether it keeps its promises.
pub fn measure(arguments: &environment::Arguments) -> Result<Vec<bool>> {
    let python = python::find(arguments.python.as_ref())?;
    let mut build = beside_pyo3::cargo(&python)?;
    build.args(["build", "--release", "--package", "hydrozoa-pyo3"]);
    let program = workspace::executable(&mut build, "hydrozoa-pyo3")?;
    let environment = Environment::with_numpy(python)?;
    let mut command = Command::new(program);
    command.arg("--venv").arg(environment.root()).env("OMP_NUM_THREADS", "1");
    Ok(vec![command.status().context("starting the measurement")?.success()])
}
