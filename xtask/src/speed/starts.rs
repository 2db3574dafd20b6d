//! How long further interpreters with torch take to their first result, beside processes in the same run.

use anyhow::{Context, Result};

use crate::environment::{self, Environment};
use crate::{demo, workspace};

/// Makes the measurement. Returns whether it keeps its promise.
pub fn measure(arguments: &environment::Arguments) -> Result<Vec<bool>> {
    let environment = Environment::prepare(arguments)?;
    let compare = workspace::build("hydrozoa-benches", "compare")?;
    let models = demo::export(&environment)?;
    let mut command = demo::beside_rivals(&compare, "starts", "density.py", &environment, &models);
    Ok(vec![command.status().context("starting the measurement")?.success()])
}
