//! The checkout and the cargo that runs this program.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The checkout's root folder.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("xtask/support lies in the workspace")
}

/// The cargo that started this program, in the checkout's root.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// The same, with what other programs leave of the processors.
pub fn patient_cargo() -> Command {
    let own = cargo();
    let mut command = Command::new("nice");
    command.arg(own.get_program()).current_dir(root());
    command
}

/// Where cargo builds.
pub fn target() -> Result<PathBuf> {
    let output = cargo()
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .output()
        .context("starting cargo")?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let target = metadata["target_directory"].as_str().context("cargo names its target folder")?;
    Ok(target.into())
}

/// Builds a binary of the workspace in release mode and returns the path that cargo reports.
pub fn build(package: &str, binary: &str) -> Result<PathBuf> {
    executable(cargo().args(["build", "--release", "--package", package, "--bin", binary]), binary)
}

/// Runs `cargo build` as `command` says and returns the path that cargo reports for a binary.
pub fn executable(command: &mut Command, binary: &str) -> Result<PathBuf> {
    let output = command
        .arg("--message-format=json-render-diagnostics")
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("starting cargo")?;
    if !output.status.success() {
        bail!("{command:?} failed: {}", output.status);
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|message| message["target"]["name"] == binary)
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
        .with_context(|| format!("cargo named no executable {binary}"))
}
