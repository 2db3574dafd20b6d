//! `cargo xtask lab`: the laboratories are a crate of their own, which is built when somebody asks for one.

use std::ffi::OsString;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace;

/// Builds the laboratories, and runs the one that the words name.
pub fn run(words: &[OsString]) -> Result<()> {
    let mut command = cargo();
    let status = command.args(words).status().context("starting cargo")?;
    if !status.success() {
        // It has said why.
        bail!("the laboratory ended with {status}");
    }
    Ok(())
}

/// The command that runs a laboratory.
pub fn command(laboratory: &str) -> Command {
    let mut command = cargo();
    command.arg(laboratory);
    command
}

/// In the caller's folder, which relative paths among the words mean.
fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(["run", "--quiet", "--package", "hydrozoa-lab", "--manifest-path"]);
    command.arg(workspace::root().join("Cargo.toml")).arg("--");
    command
}
