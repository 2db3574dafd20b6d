//! The speed of plain Python code with a profile of imports, and settled, beside eager imports in the same run.

use std::process::Command;

use anyhow::{Context, Result};

use crate::environment::{self, Environment};
use crate::{cache, python, workspace};

/// Makes the measurement. Returns whether it keeps its promise.
pub fn measure(arguments: &environment::Arguments) -> Result<Vec<bool>> {
    let python = python::find(arguments.python.as_ref())?;
    let environment = Environment::with_numpy(python)?;
    let compare = workspace::build("hydrozoa-benches", "compare")?;
    let mut command = Command::new(compare);
    command.arg("kernels").arg("--venv").arg(environment.root());
    command.arg("--scripts").arg(workspace::root().join("benches/python"));
    // It is on a disk: a virtual environment is in it.
    command.arg("--settle-in").arg(cache::root()?);
    Ok(vec![command.status().context("starting the measurement")?.success()])
}
