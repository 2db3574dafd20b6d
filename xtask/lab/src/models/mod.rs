//! `cargo xtask lab models`: the fifteen models of figure 4 of "Using Python for Model Inference in Deep Learning" (DeVito et al., 2021).
//!
//! Stock torch.package packages each model in an environment with its implementation. Two interpreters then load it
//! at the same time in the environment of the tests, without the implementation.

mod scaling;
mod table;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::comparisons::{compared, program};
use crate::environment::{self, Environment};
use crate::{cache, compare, workspace};

/// Options of `cargo xtask lab models`.
#[derive(clap::Args, Clone)]
pub struct Arguments {
    #[command(flatten)]
    environment: environment::Arguments,
    /// Only this model; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Instead: private memory of eight interpreters with BERT base, and the pages that a second process shares
    #[arg(long)]
    memory: bool,
    /// Interpreters import with a profile of each model's work
    #[arg(long)]
    lazy_imports: bool,
    /// Also settle the interpreters in this folder on a disk, and call them again
    #[arg(long, value_name = "DIR")]
    settle: Option<PathBuf>,
    /// How many interpreters load a model
    #[arg(long, value_name = "N", default_value_t = 2)]
    interpreters: usize,
    /// Leave the packages in the cache: 5 GB
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    scaling: scaling::Options,
}

/// A model in the list of tests/models/export.py.
#[derive(Deserialize)]
struct Model {
    name: String,
    title: String,
    source: String,
    draws: bool,
}

/// The figures of packaging.
#[derive(Deserialize)]
struct Export {
    mocks: Vec<String>,
    patched: usize,
    seconds: f64,
    bytes: u64,
    weights: u64,
    /// Whether a second call in plain python gave the same bits.
    repeatable: bool,
    /// Top-level modules in the package.
    brings: Vec<String>,
}

/// The results of the interpreters.
#[derive(Deserialize)]
struct Agreement {
    calls: usize,
    differences: Vec<String>,
    /// Seconds until the package was open and the model loaded in the first interpreter.
    opened: f64,
}

/// A model's row of the table.
struct Row {
    model: Model,
    export: Export,
    agreement: Result<Agreement>,
}

impl Row {
    fn agrees(&self) -> bool {
        self.export.repeatable
            && self.agreement.as_ref().is_ok_and(|found| found.differences.is_empty())
    }
}

/// Packages, loads and compares. Returns an error if a model does not package, does not load, or differs.
pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.scaling.is_written()? {
        return Ok(());
    }
    let place = Setup::prepare(arguments)?;
    if arguments.memory {
        return place.memory(arguments.keep);
    }
    let mut models: Vec<Model> = json(place.exporter().arg("--list"))?;
    if let Some(unknown) =
        arguments.only.iter().find(|name| models.iter().all(|model| model.name != **name))
    {
        let names: Vec<_> = models.iter().map(|model| model.name.as_str()).collect();
        bail!("there is no model {unknown}; there are {}", names.join(", "));
    }
    models.retain(|model| arguments.only.is_empty() || arguments.only.contains(&model.name));
    if arguments.scaling.is_asked() {
        return scaling::run(&place, &models, &arguments.scaling, arguments.keep);
    }
    let mut rows = Vec::new();
    let mut failed = Vec::new();
    for model in models {
        eprintln!("{}", model.title);
        let name = model.name.clone();
        match row(&place, model, arguments) {
            Ok(row) => {
                table::explain(&row);
                if !row.agrees() {
                    failed.push(name.clone());
                }
                rows.push(row);
            }
            Err(error) => {
                eprintln!("  error: {error:#}");
                failed.push(name.clone());
            }
        }
        if !arguments.keep {
            place.remove(&name)?;
        }
    }
    table::print(&rows);
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

fn row(place: &Setup, model: Model, arguments: &Arguments) -> Result<Row> {
    let export = place.export(&model.name)?;
    let mut command = place.runner(&model.name);
    command.args(["--interpreters", &arguments.interpreters.to_string()]);
    if arguments.lazy_imports {
        command.arg("--lazy-imports");
    }
    if let Some(folder) = &arguments.settle {
        command.arg("--settle").arg(folder);
    }
    for module in &export.brings {
        command.args(["--absent", module]);
    }
    let agreement = json(&mut command);
    Ok(Row { model, export, agreement })
}

/// The environments, the programs and the folder of the packages.
struct Setup {
    base: Environment,
    models: Environment,
    runner: PathBuf,
    folder: PathBuf,
    /// Held until the last package is removed: a second run would write and remove the same files.
    _lock: cache::CacheFolder,
}

impl Setup {
    fn prepare(arguments: &Arguments) -> Result<Self> {
        let base = Environment::prepare(&arguments.environment)?;
        let models = base.with_models()?;
        let runner = workspace::build("hydrozoa-tests", "models")?;
        let lock = cache::CacheFolder::open("figure4")?;
        let folder = lock.folder().to_owned();
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("creating {}", folder.display()))?;
        Ok(Self { base, models, runner, folder, _lock: lock })
    }

    fn exporter(&self) -> Command {
        let mut command = self.models.python();
        command.arg(workspace::root().join("tests/models/export.py")).env("OMP_NUM_THREADS", "1");
        command
    }

    fn export(&self, name: &str) -> Result<Export> {
        json(self.exporter().arg(name).arg(&self.folder))
    }

    fn package(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.pt"))
    }

    fn runner(&self, name: &str) -> Command {
        let mut command = Command::new(&self.runner);
        command.arg("--package").arg(self.package(name));
        command.arg("--expected").arg(self.folder.join(format!("{name}.expected")));
        command.arg("--venv").arg(self.base.root()).env("OMP_NUM_THREADS", "1");
        command
    }

    /// Has `compare weights` judge the memory that BERT base takes in eight interpreters, and in a second process.
    fn memory(&self, keep: bool) -> Result<()> {
        self.export("bert")?;
        let mut command = compare::role(&program()?, "weights", self.base.root());
        command.arg("--package").arg(self.package("bert")).arg("--memory");
        command.arg("--check").arg(workspace::root().join("tests/models/check.py"));
        let kept = compared(&mut command);
        if !keep {
            self.remove("bert")?;
        }
        kept
    }

    fn remove(&self, name: &str) -> Result<()> {
        remove(&self.package(name))?;
        remove(&self.folder.join(format!("{name}.expected")))
    }
}

/// Removes a file; it may be missing.
fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Runs a command whose last line of output is JSON.
fn json<T: DeserializeOwned>(command: &mut Command) -> Result<T> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("starting {command:?}"))?;
    ensure!(output.status.success(), "{command:?} failed: {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().with_context(|| format!("{command:?} printed nothing"))?;
    serde_json::from_str(line).with_context(|| format!("reading {line:?}"))
}
