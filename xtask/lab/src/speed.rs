//! `cargo xtask lab speed`: checks the promised speed of loader, calls, Python code, malloc, guards and starts, each beside its rival in the same run.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use crate::comparisons::program;
use crate::environment::{self, Environment};
use crate::{beside_glibc, beside_pyo3, cache, compare, python, workspace};

/// Options of `cargo xtask lab speed`.
#[derive(clap::Args, Clone)]
pub struct Arguments {
    #[command(flatten)]
    environment: environment::Arguments,
    /// The side to measure; all by default
    #[arg(value_enum)]
    side: Option<Side>,
}

/// A part of Hydrozoa with a promised speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    /// Loading libraries, beside glibc's loader
    Loader,
    /// Calls from Rust to Python and back, beside PyO3
    Calls,
    /// Python code with a profile of imports, and settled, beside eager imports
    Kernels,
    /// Pairs of malloc and free in an interpreter, beside glibc's
    Malloc,
    /// Calls of an interpreter that contains its crashes, beside one that does not
    Guards,
    /// Further interpreters with torch, eager, beside processes: one alone, and four at once
    Starts,
}

/// Makes every measurement. Returns an error if a promise is broken.
pub fn run(arguments: &Arguments) -> Result<()> {
    let wanted = |side| arguments.side.is_none_or(|wanted| wanted == side);
    let arguments = &arguments.environment;
    let mut outcomes = Vec::new();
    if wanted(Side::Calls) {
        outcomes.push(is_kept(&mut calls(arguments)?)?);
    }
    if wanted(Side::Kernels) {
        outcomes.push(is_kept(&mut kernels(arguments)?)?);
    }
    for (side, role) in [(Side::Malloc, "malloc"), (Side::Guards, "guards")] {
        if wanted(side) {
            let environment = Environment::with_numpy(python::find(arguments.python.as_ref())?)?;
            outcomes.push(is_kept(&mut compare::role(&program()?, role, environment.root()))?);
        }
    }
    if wanted(Side::Loader) {
        for mut command in beside_glibc::measurements(arguments)? {
            outcomes.push(is_kept(&mut command)?);
        }
    }
    if wanted(Side::Starts) {
        outcomes.push(is_kept(&mut starts(arguments)?)?);
    }
    let broken = outcomes.iter().filter(|kept| !**kept).count();
    ensure!(broken == 0, "{broken} of {} measurements break a promise", outcomes.len());
    Ok(())
}

/// Makes a measurement. Returns whether it keeps its promises.
fn is_kept(command: &mut Command) -> Result<bool> {
    let status = command.env("OMP_NUM_THREADS", "1").status();
    Ok(status.context("starting a measurement")?.success())
}

/// Calls beside PyO3's in the same process (`benches/pyo3`).
fn calls(arguments: &environment::Arguments) -> Result<Command> {
    let python = python::find(arguments.python.as_ref())?;
    let mut build = beside_pyo3::cargo(&python)?;
    build.args(["build", "--release", "--package", "hydrozoa-pyo3"]);
    let mut command = Command::new(workspace::executable(&mut build, "hydrozoa-pyo3")?);
    command.arg("--venv").arg(Environment::with_numpy(python)?.root());
    Ok(command)
}

/// Python code with a profile of imports, and settled, beside eager imports.
fn kernels(arguments: &environment::Arguments) -> Result<Command> {
    let environment = Environment::with_numpy(python::find(arguments.python.as_ref())?)?;
    let mut command = compare::role(&program()?, "kernels", environment.root());
    command.arg("--scripts").arg(compare::scripts());
    // It is on a disk: a virtual environment is in it.
    command.arg("--settle-in").arg(cache::root()?);
    Ok(command)
}

/// Starts of further interpreters with torch beside those of processes.
fn starts(arguments: &environment::Arguments) -> Result<Command> {
    let environment = Environment::prepare(arguments)?;
    let models = compare::export(&environment)?;
    Ok(compare::beside_rivals(&program()?, "starts", "density.py", &environment, &models))
}
