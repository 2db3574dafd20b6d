//! How long further interpreters with torch take to their first result, beside processes in the same run.

use std::process::Command;

use anyhow::{Context, Result};

use crate::environment::{self, Environment};
use crate::{demo, workspace};

/// Makes the measurement. Returns whether it keeps its promise.
pub fn measure(arguments: &environment::Arguments) -> Result<Vec<bool>> {
    let environment = Environment::prepare(arguments)?;
    let compare = workspace::build("hydrozoa-benches", "compare")?;
    let models = demo::export(&environment)?;
    let mut command = Command::new(compare);
    command.arg("starts").arg("--manifest").arg(models.join("manifest.json"));
    command.arg("--venv").arg(environment.root());
    command.arg("--worker").arg(workspace::root().join("benches/python/density.py"));
    Ok(vec![command.status().context("starting the measurement")?.success()])
}
