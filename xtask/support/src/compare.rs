//! Command lines of `compare`, the program of `benches/` that plays all contenders, and the models that they use.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::environment::Environment;
use crate::{cache, workspace};

/// Exports the models and the outputs that plain python computes with them. It takes a few seconds and is done each
/// time: the bits of a result may depend on the processor, and the cache may come from another one.
pub fn export(environment: &Environment) -> Result<PathBuf> {
    eprintln!("exporting the models with stock torch.package");
    let folder = cache::root()?.join(format!("models-cp3{}", environment.base().minor));
    let status = environment
        .python()
        .arg(scripts().join("export.py"))
        .arg(&folder)
        .env("OMP_NUM_THREADS", "1")
        .status()
        .context("starting python")?;
    if !status.success() {
        bail!("exporting the models failed: {status}");
    }
    Ok(folder)
}

/// Where the rivals' scripts are.
pub fn scripts() -> PathBuf {
    workspace::root().join("benches/python")
}

/// The command line of a role of `compare`, with the packages of a virtual environment.
pub fn role(compare: &Path, role: &str, venv: &Path) -> Command {
    let mut command = Command::new(compare);
    command.arg(role).arg("--venv").arg(venv).env("OMP_NUM_THREADS", "1");
    command
}

/// The command line of a role with the exported models.
pub fn with_models(
    compare: &Path,
    name: &str,
    environment: &Environment,
    models: &Path,
) -> Command {
    let mut command = role(compare, name, environment.root());
    command.arg("--manifest").arg(models.join("manifest.json"));
    command
}

/// The command line of a role with the exported models beside rivals, whose script is in benches/python.
pub fn beside_rivals(
    compare: &Path,
    name: &str,
    script: &str,
    environment: &Environment,
    models: &Path,
) -> Command {
    let mut command = with_models(compare, name, environment, models);
    command.arg("--worker").arg(scripts().join(script));
    command
}

/// The command line of the demo.
pub fn comparison(compare: &Path, environment: &Environment, models: &Path) -> Command {
    beside_rivals(compare, "run", "worker.py", environment, models)
}

/// The command of the measurement of large weights, with the package that it needs.
pub fn weights(compare: &Path, environment: &Environment) -> Result<Command> {
    let script = scripts().join("weights.py");
    let name = environment.root().file_name().context("an environment has a name")?;
    let folder = cache::root()?.join("weights").join(name);
    let package = folder.join("encoder.pt");
    if !folder.join("encoder.expected").exists() || !package.exists() {
        eprintln!("exporting a model of BERT-base's size, 440 MB");
        let status = environment.python().arg(&script).arg("export").arg(&folder).status()?;
        if !status.success() {
            bail!("exporting failed: {status}");
        }
    }
    let mut command = role(compare, "weights", environment.root());
    command.arg("--package").arg(package).arg("--script").arg(script);
    Ok(command)
}

/// The command line of the workloads.
pub fn workloads(compare: &Path, environment: &Environment) -> Result<Command> {
    let folder = cache::root()?.join(format!("work-cp3{}", environment.base().minor));
    let mut command = role(compare, "workloads", environment.root());
    command.arg("--scripts").arg(scripts()).arg("--folder").arg(folder);
    Ok(command)
}
