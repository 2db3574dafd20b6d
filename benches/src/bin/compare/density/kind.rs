//! The contenders, and how each is started.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hydrozoa::{ImportProfile, Pool, Result as Outcome, Tensor};
use hydrozoa_measure::models::{Cases, Entry};
use hydrozoa_measure::package::MODEL;

use crate::Place;

/// What grows.
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
    program: PathBuf,
    place: Place,
    worker: PathBuf,
    settle_in: PathBuf,
    profile: PathBuf,
    free_python: Option<PathBuf>,
}

impl Plan {
    /// Records the profile too, if a contender needs it.
    pub fn new(options: &super::Options, entry: &Entry, kinds: &[Kind]) -> Result<Self> {
        let place = &options.place;
        let folder = place.manifest.parent().context("a file is in a folder")?;
        ensure!(
            options.free.is_some() || !kinds.contains(&Kind::FreeThreads),
            "free threads need a free-threaded CPython with torch and torchvision: name it by --free"
        );
        let plan = Self {
            program: std::env::current_exe().context("finding this program")?,
            place: place.clone(),
            worker: options.worker.clone(),
            settle_in: options.settle_in.clone().unwrap_or_else(|| folder.to_owned()),
            profile: folder.join("density.imports"),
            free_python: options.free.clone(),
        };
        if kinds.iter().any(|kind| kind.is_lazy()) {
            eprintln!("recording which modules the model needs");
            let profile = record(place, entry)?;
            fs::write(&plan.profile, profile.to_string())
                .with_context(|| format!("writing {}", plan.profile.display()))?;
        }
        Ok(plan)
    }

    /// For contenders without a profile.
    pub fn eager(place: &Place, worker: &Path) -> Result<Self> {
        Ok(Self {
            program: std::env::current_exe().context("finding this program")?,
            place: place.clone(),
            worker: worker.to_owned(),
            settle_in: PathBuf::new(),
            profile: PathBuf::new(),
            free_python: None,
        })
    }

    pub fn command(&self, kind: Kind) -> Command {
        let stock = self.place.venv.join("bin/python");
        match kind {
            Kind::Prefork => self.python(&stock, "--prefork"),
            Kind::Spawn => self.python(&stock, "--spawn"),
            Kind::FreeThreads => self.free_threads(),
            _ => self.pool(kind),
        }
    }

    fn pool(&self, kind: Kind) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("density-pool").arg("--manifest").arg(&self.place.manifest);
        command.arg("--venv").arg(&self.place.venv);
        if kind.is_lazy() {
            command.arg("--profile").arg(&self.profile);
        }
        if kind == Kind::Settled {
            command.arg("--settle-in").arg(&self.settle_in);
        }
        command
    }

    fn free_threads(&self) -> Command {
        let python = self.free_python.as_ref().expect("checked when the plan was made");
        let mut command = self.python(python, "--threads");
        // torchvision's extension does not say that it works without the GIL, and would turn it on.
        command.env("PYTHON_GIL", "0");
        command
    }

    fn python(&self, python: &Path, mode: &str) -> Command {
        let mut command = Command::new(python);
        command.arg(&self.worker).arg(&self.place.manifest).arg(super::MODEL).arg(mode);
        for name in ["PYTHONPATH", "PYTHONHOME"] {
            command.env_remove(name);
        }
        // torch.package itself uses TypedStorage; the warning does not concern the work.
        command.env("PYTHONWARNINGS", "ignore");
        command
    }
}

fn record(place: &Place, entry: &Entry) -> Result<ImportProfile> {
    let cases = entry.cases()?;
    let profile =
        Pool::builder().venv(&place.venv).record_imports(|pool| first(pool, entry, &cases))?;
    ensure!(!profile.to_string().is_empty(), "the profile is empty");
    Ok(profile)
}

/// What a worker does before it serves.
fn first(pool: &Pool, entry: &Entry, cases: &Cases) -> Outcome<bool> {
    let session = pool.acquire()?;
    let movable = pool.load_package(&entry.package)?.load_pickle(MODEL.0, MODEL.1)?;
    let output: Tensor = movable.to_object(&session)?.call((cases.input(0),))?.extract()?;
    cases.is_right(0, &output)
}
