//! Installs packages for one sealed file, into a directory that goes away afterwards.

use super::error::CollectError;
use hydrozoa::python::Installation;
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Output, Stdio};

/// A directory that is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self, CollectError> {
        let place = std::env::temp_dir();
        let mut number = 0;
        loop {
            let path = place.join(format!("hydrozoa-seal-{}-{number}", process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                // Another seal of this process, or what an ended process of the same number has left.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
                Err(source) => return Err(CollectError::Read { path, source }),
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Nothing is lost with what stays behind.
        drop(fs::remove_dir_all(&self.0));
    }
}

/// Installs the requirements by the pip of that Python, or by uv if it has none.
pub(super) fn install(
    installation: &Installation,
    packages: &[String],
) -> Result<Scratch, CollectError> {
    let failed = |reason: String| CollectError::Install {
        packages: packages.join(", "),
        minor: installation.minor(),
        reason,
    };
    let executable = installation.executable().ok_or_else(|| {
        failed(format!(
            "{} has no executable that could run pip; install the packages into a virtual environment, and name it with --venv",
            installation.prefix().display()
        ))
    })?;
    let scratch = Scratch::new()?;
    let mut pip = Command::new(executable);
    pip.args(["-I", "-m", "pip", "install", "--no-compile", "--no-input", "--quiet"]);
    pip.args(["--disable-pip-version-check", "--no-warn-script-location"]);
    let mut uv = Command::new("uv");
    uv.args(["pip", "install", "--quiet", "--python"]).arg(executable);
    let mut command = match has_pip(executable) {
        true => pip,
        false => uv,
    };
    command.arg("--target").arg(scratch.path()).arg("--").args(packages).stdin(Stdio::null());
    match command.output() {
        Ok(output) if output.status.success() => Ok(scratch),
        Ok(output) => Err(failed(last_words(&output))),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(failed(format!(
            "{} has no pip, and there is no uv on PATH; install one of them, or name a virtual environment with --venv",
            executable.display()
        ))),
        Err(error) => Err(failed(format!("the installer did not run: {error}"))),
    }
}

fn has_pip(executable: &Path) -> bool {
    let mut command = Command::new(executable);
    let command = command.args(["-I", "-c", "import pip"]).stdin(Stdio::null());
    command.output().is_ok_and(|output| output.status.success())
}

/// The lines with errors among an installer's output; otherwise its last ones.
fn last_words(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let errors: Vec<&str> =
        lines.iter().copied().filter(|line| line.to_lowercase().contains("error")).collect();
    let words = match errors.is_empty() {
        true => lines[lines.len().saturating_sub(3)..].join("\n"),
        false => errors.join("\n"),
    };
    match words.is_empty() {
        true => format!("the installer has failed ({})", output.status),
        false => words,
    }
}
