//! The contenders, and how each is started.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hydrozoa::{ImportProfile, Pool, Result as Outcome, Tensor};
use hydrozoa_measure::contender::plain_python;
use hydrozoa_measure::models::{Cases, ExportedModel};
use hydrozoa_measure::package::MODEL;

use super::GrowingPool;
use crate::exported::Exported;
use crate::ours::Ours;

/// The contender that grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Kind {
    /// Interpreters
    Eager,
    /// The same, with a profile of their imports
    Lazy,
    /// The same, settled
    Settled,
    /// Children of a process that has loaded the model, with gc.freeze
    Prefork,
    /// Processes
    Spawn,
    /// Threads of one process without the GIL; needs --free
    FreeThreads,
}

impl Kind {
    /// All that this machine can have. Free threads take a CPython of their own.
    pub fn all(has_free_python: bool) -> Vec<Self> {
        let variants = <Self as clap::ValueEnum>::value_variants().iter().copied();
        variants.filter(|kind| has_free_python || *kind != Self::FreeThreads).collect()
    }

    pub fn label(self) -> &'static str {
        match self {
            Self::Eager => "interpreters, eager",
            Self::Lazy => "interpreters, profile",
            Self::Settled => "interpreters, profile, settled",
            Self::Prefork => "prefork with gc.freeze",
            Self::Spawn => "processes",
            Self::FreeThreads => "free threads",
        }
    }

    fn is_lazy(self) -> bool {
        matches!(self, Self::Lazy | Self::Settled)
    }
}

/// Where everything is that contenders need.
pub struct Plan {
    exported: Exported,
    worker: PathBuf,
    settle_in: PathBuf,
    profile: PathBuf,
    free_python: Option<PathBuf>,
}

impl Plan {
    /// Records the profile too, if a contender needs it.
    pub fn new(options: &super::Options, kinds: &[Kind]) -> Result<Self> {
        let exported = &options.exported;
        let folder = exported.manifest.parent().context("a file is in a folder")?;
        ensure!(
            options.free.is_some() || !kinds.contains(&Kind::FreeThreads),
            "free threads need a free-threaded CPython with torch and torchvision: name it by --free"
        );
        let plan = Self {
            settle_in: options.settle_in.clone().unwrap_or_else(|| folder.to_owned()),
            profile: folder.join("density.imports"),
            free_python: options.free.clone(),
            ..Self::eager(exported, &options.worker)
        };
        if kinds.iter().any(|kind| kind.is_lazy()) {
            eprintln!("recording which modules the model needs");
            let profile = record(exported, &exported.model(super::MODEL)?)?;
            fs::write(&plan.profile, profile.to_string())
                .with_context(|| format!("writing {}", plan.profile.display()))?;
        }
        Ok(plan)
    }

    /// For contenders without a profile.
    pub fn eager(exported: &Exported, worker: &Path) -> Self {
        Self {
            exported: exported.clone(),
            worker: worker.to_owned(),
            settle_in: PathBuf::new(),
            profile: PathBuf::new(),
            free_python: None,
        }
    }

    pub fn command(&self, kind: Kind) -> Result<Command> {
        let rival = |mode: &str| {
            let mut command = self.exported.rival(&self.worker);
            command.args([super::MODEL, mode]);
            command
        };
        Ok(match kind {
            Kind::Prefork => rival("--prefork"),
            Kind::Spawn => rival("--spawn"),
            Kind::FreeThreads => {
                let python = self.free_python.as_ref().context("checked when the plan was made")?;
                let mut command = plain_python(python, &self.worker);
                command.arg(&self.exported.manifest).args([super::MODEL, "--threads"]);
                // torchvision's extension does not say that it works without the GIL, and would turn it on.
                command.env("PYTHON_GIL", "0");
                command
            }
            Kind::Eager | Kind::Lazy | Kind::Settled => Ours::Growing(GrowingPool {
                exported: self.exported.clone(),
                profile: kind.is_lazy().then(|| self.profile.clone()),
                settle_in: (kind == Kind::Settled).then(|| self.settle_in.clone()),
            })
            .command()?,
        })
    }
}

fn record(exported: &Exported, entry: &ExportedModel) -> Result<ImportProfile> {
    let cases = entry.cases()?;
    let profile =
        Pool::builder().venv(&exported.venv).record_imports(|pool| first(pool, entry, &cases))?;
    ensure!(!profile.to_string().is_empty(), "the profile is empty");
    Ok(profile)
}

/// Prepares a worker before it serves.
fn first(pool: &Pool, entry: &ExportedModel, cases: &Cases) -> Outcome<bool> {
    let session = pool.acquire()?;
    let movable = pool.load_package(&entry.package)?.load_pickle(MODEL.0, MODEL.1)?;
    let output: Tensor = movable.to_object(&session)?.call((cases.input(0),))?.extract()?;
    cases.is_right(0, &output)
}
