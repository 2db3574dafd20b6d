//! Virtual environments.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::python::Python;

/// Makes an empty environment; the folder may exist.
pub fn create(python: &Python, folder: &Path) -> Result<()> {
    let output = Command::new(&python.executable)
        .args(["-m", "venv"])
        .arg(folder)
        .output()
        .context("starting venv")?;
    if !output.status.success() {
        bail!(
            "{} -m venv failed:\n{}",
            python.executable.display(),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

/// The environment's Python, without the variables that would change its behaviour.
pub fn python(root: &Path) -> Command {
    clean(Command::new(root.join("bin/python")))
}

/// The command, without the variables that would change what Python does.
pub fn clean(mut command: Command) -> Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("PYTHON") {
            command.env_remove(name);
        }
    }
    command.env_remove("VIRTUAL_ENV");
    command
}

/// An environment with released packages, as a user has it. It is removed when it is dropped, unless it is kept.
pub struct Venv {
    root: PathBuf,
    keep: bool,
}

impl Venv {
    /// An empty environment in that folder. With `keep` an earlier run's environment is used as it is.
    pub fn open(python: &Python, root: &Path, keep: bool) -> Result<Self> {
        let venv = Self { root: root.to_owned(), keep };
        if !keep && root.exists() {
            std::fs::remove_dir_all(root)
                .with_context(|| format!("removing {}", root.display()))?;
        }
        if !root.join("bin/python").exists() {
            create(python, root)?;
        }
        Ok(venv)
    }

    /// The environment's folder, for `--venv`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Installs wheels, never sources; only modules that are imported are compiled. Returns pip's reason where it cannot.
    pub fn install(&self, packages: &[&str]) -> Result<Result<(), String>> {
        let output = python(&self.root)
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--only-binary=:all:",
                "--progress-bar=off",
                "--no-compile",
            ])
            .args(packages)
            .stdin(Stdio::null())
            .output()
            .context("starting pip")?;
        if output.status.success() {
            return Ok(Ok(()));
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let errors = || text.lines().filter_map(|line| line.strip_prefix("ERROR: "));
        let reason = errors()
            .find(|line| line.starts_with("No matching distribution"))
            .or_else(|| errors().next());
        ensure!(reason.is_some(), "pip failed ({}):\n{text}", output.status);
        Ok(Err(reason.unwrap_or_default().to_owned()))
    }

    /// The installed packages with their releases, one on each line.
    pub fn releases(&self) -> Result<String> {
        let output = python(&self.root)
            .args(["-m", "pip", "list", "--format=freeze"])
            .output()
            .context("starting pip")?;
        ensure!(output.status.success(), "pip list failed: {}", output.status);
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Venv {
    fn drop(&mut self) {
        if !self.keep
            && let Err(error) = std::fs::remove_dir_all(&self.root)
        {
            eprintln!("removing {}: {error}", self.root.display());
        }
    }
}
