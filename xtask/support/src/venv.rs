//! Virtual environments.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::python::Python;
use crate::uv;

/// Makes an empty environment, without pip; the folder may exist.
pub fn create(python: &Python, folder: &Path) -> Result<()> {
    let output = Command::new(&python.executable)
        .args(["-m", "venv", "--without-pip"])
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
    python: Python,
    keep: bool,
}

impl Venv {
    /// An empty environment in that folder. With `keep` an earlier run's environment is used as it is.
    pub fn open(python: &Python, root: &Path, keep: bool) -> Result<Self> {
        let venv = Self { root: root.to_owned(), python: python.clone(), keep };
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

    /// Installs wheels, never sources; only modules that are imported are compiled. Returns uv's reason where it cannot.
    pub fn install(&self, packages: &[&str]) -> Result<Result<(), String>> {
        let mut uv = uv::install(&self.python, &self.root.join("bin/python"))?;
        let output = uv.arg("--quiet").args(packages).output().context("starting uv")?;
        if output.status.success() {
            return Ok(Ok(()));
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let reason = uv::refusal(&output);
        reason.map(Err).with_context(|| format!("uv failed ({}):\n{text}", output.status))
    }

    /// The installed packages with their releases, one on each line.
    pub fn releases(&self) -> Result<String> {
        uv::releases(&self.python, &self.root)
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
