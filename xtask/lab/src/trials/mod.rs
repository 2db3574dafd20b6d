//! `cargo xtask lab wheels` and `cargo xtask lab areas`: pieces of work in several copies at once, beside plain python.
//!
//! The `hydrozoa` command runs the copies, as a user would. tests/wheels has the driver, a list of the most used wheels and
//! pieces of work with them; tests/areas has a list of pieces of work with many areas of torch.

pub mod areas;
mod finding;
mod list;
mod page;
mod trial;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::python::{self, Python};
use crate::venv::Venv;
use crate::{cache, digest, environment, workspace};
use finding::{Finding, Kept, Outcome};
use list::{List, Row};
use trial::{Imports, Trial};

/// Options of `cargo xtask lab wheels`, and of `cargo xtask lab areas`.
// Not an argument group of clap's, as in `environment`.
#[derive(clap::Args, Clone)]
#[group(skip)]
pub struct Arguments {
    #[command(flatten)]
    environment: environment::Arguments,
    /// Only these rows of the list, or the rows of these environments
    #[arg(long, value_name = "NAME", num_args = 1..)]
    only: Vec<String>,
    /// Run again only what an earlier run did not find equal, with whatever program it ran
    #[arg(long)]
    failed: bool,
    /// Run again what an earlier run of the same program found
    #[arg(long, conflicts_with = "failed")]
    again: bool,
    /// Write the results into this page, between its marks
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// How many copies run at once; without it 3 of wheels and 4 of areas
    #[arg(long, value_name = "N")]
    copies: Option<usize>,
    /// How often each copy does its work
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// How often in a row a process with all copies is started; a row is equal if it is equal each time
    #[arg(long, value_name = "N", default_value_t = 1)]
    times: usize,
    /// The time limit of a process, in seconds; without it 300 for wheels and 900 for areas
    #[arg(long, value_name = "SECONDS")]
    limit: Option<f64>,
    /// How the copies import modules
    #[arg(long, value_enum, default_value = "eager")]
    imports: Imports,
    /// The `hydrozoa` command to try; without it, it is built from this checkout
    #[arg(long, value_name = "FILE")]
    command: Option<PathBuf>,
    /// Leave the virtual environments in the cache, and use those that an earlier run left: up to 15 GB
    #[arg(long)]
    keep: bool,
    /// Install nothing: this virtual environment has the packages of all rows
    #[arg(long = "environment", value_name = "DIR")]
    installed: Option<PathBuf>,
}

/// The subject of a command.
struct Subject {
    list: List,
    copies: usize,
    limit: f64,
    /// Requirements for packages of the list that must not be the newest release.
    pins: Vec<(&'static str, String)>,
    /// The cache entry of the findings.
    entry: String,
}

/// Runs the rows of tests/wheels/wheels.txt and writes the table. Returns an error if a row is neither equal nor without a
/// wheel.
pub fn wheels(arguments: &Arguments) -> Result<()> {
    let python = python::find(arguments.environment.python.as_ref())?;
    let subject = Subject {
        list: List::Wheels,
        copies: 3,
        limit: 300.0,
        pins: Vec::new(),
        entry: format!("wheels-cp3{}", python.minor),
    };
    run(arguments, python, subject)
}

fn run(arguments: &Arguments, python: Python, subject: Subject) -> Result<()> {
    let rows = subject.list.rows()?;
    for only in &arguments.only {
        ensure!(
            rows.iter().any(|row| row.work == *only || row.environment == *only),
            "{} has no row and no environment {only}",
            subject.list.file().display()
        );
    }
    let run = Run::prepare(arguments, python, subject)?;
    let mut waiting: Vec<&Row> = rows.iter().filter(|row| run.wants(row)).collect();
    eprintln!("{} of {} rows to run", waiting.len(), rows.len());
    let total = waiting.len();
    while let Some(first) = waiting.first() {
        let (group, rest): (Vec<&Row>, Vec<&Row>) =
            waiting.iter().partition(|row| row.environment == first.environment);
        let done = total - waiting.len();
        run.group(&group, done, total)?;
        waiting = rest;
    }
    run.end(rows)
}

/// The state shared by all rows of a run.
struct Run<'a> {
    arguments: &'a Arguments,
    subject: Subject,
    python: Python,
    trial: Trial,
    kept: Kept,
    /// The digest of the program and the options.
    key: String,
    folder: PathBuf,
    /// A second run would install and remove the same environments.
    _lock: cache::CacheFolder,
}

impl<'a> Run<'a> {
    fn prepare(arguments: &'a Arguments, python: Python, subject: Subject) -> Result<Self> {
        if let Some(root) = &arguments.installed {
            let packages = root.join(format!("lib/python3.{}/site-packages", python.minor));
            let minor = python.minor;
            ensure!(packages.is_dir(), "{} is not an environment of 3.{minor}", root.display());
        }
        let command = match &arguments.command {
            Some(command) => {
                command.canonicalize().with_context(|| format!("finding {}", command.display()))?
            }
            None => workspace::build("hydrozoa-cli", "hydrozoa")?,
        };
        let entry = match arguments.imports {
            Imports::Eager => subject.entry.clone(),
            Imports::Lazy => format!("{}-lazy", subject.entry),
        };
        let lock = cache::CacheFolder::open(&entry)?;
        let folder = lock.folder().to_owned();
        let kept = Kept::open(&folder)?;
        let trial = Trial {
            command,
            imports: arguments.imports,
            copies: arguments.copies.unwrap_or(subject.copies),
            rounds: arguments.rounds,
            times: arguments.times,
            limit: arguments.limit.unwrap_or(subject.limit),
        };
        let options = format!("{} {} {}", trial.copies, trial.rounds, trial.times);
        let key = digest::of(&[
            &digest::read(&trial.command)?,
            &digest::read(&list::driver())?,
            &common(subject.list)?,
            options.as_bytes(),
            python.executable.as_os_str().as_encoded_bytes(),
        ]);
        Ok(Self { arguments, subject, python, trial, kept, key, folder, _lock: lock })
    }

    /// A digest of the finding's inputs, without the releases: pip decides them.
    fn key(&self, row: &Row) -> Result<String> {
        Ok(digest::of(&[
            self.key.as_bytes(),
            &digest::read(&row.file())?,
            self.wanted(row).join(" ").as_bytes(),
        ]))
    }

    fn wants(&self, row: &Row) -> bool {
        let only = &self.arguments.only;
        if !only.is_empty() && !only.contains(&row.work) && !only.contains(&row.environment) {
            return false;
        }
        match self.kept.load(&row.work) {
            None => true,
            Some(found) if self.arguments.failed => !found.outcome.is_fine(),
            Some(found) => {
                self.arguments.again || self.key(row).map_or(true, |key| key != found.key)
            }
        }
    }

    /// Rows that share an environment.
    fn group(&self, rows: &[&Row], done: usize, total: usize) -> Result<()> {
        if let Some(root) = &self.arguments.installed {
            let root =
                root.canonicalize().with_context(|| format!("finding {}", root.display()))?;
            return self.rows(rows, &vec![None; rows.len()], &root, done, total);
        }
        let name = &rows[0].environment;
        let root = self.folder.join(format!("venv-{name}"));
        eprintln!("environment {name}: installing for {} rows", rows.len());
        let venv = Venv::open(&self.python, &root, self.arguments.keep)?;
        let absent = self.install(&venv, rows)?;
        self.rows(rows, &absent, venv.root(), done, total)
    }

    /// Rows whose packages the environment has, but for those with a reason in `absent`.
    fn rows(
        &self,
        rows: &[&Row],
        absent: &[Option<String>],
        environment: &Path,
        done: usize,
        total: usize,
    ) -> Result<()> {
        for ((row, absent), number) in rows.iter().zip(absent).zip(done + 1..) {
            let start = std::time::Instant::now();
            let key = self.key(row)?;
            let finding = match absent {
                Some(reason) => Finding::of(Outcome::NoWheel, reason, &key),
                None => self.trial.run(row, environment, &key)?,
            };
            let release = finding.release.as_deref().unwrap_or_default();
            let seconds = start.elapsed().as_secs_f64();
            eprintln!(
                "[{number:3}/{total}] {:18} {release:14} {} ({seconds:.0} s)",
                row.work,
                finding.words()
            );
            self.kept.store(&row.work, &finding)?;
        }
        Ok(())
    }

    /// Installs all packages at once. If pip cannot, each row's packages are installed alone; for each row the reason why
    /// it has none, or `None`.
    fn install(&self, venv: &Venv, rows: &[&Row]) -> Result<Vec<Option<String>>> {
        let mut packages: Vec<&str> = rows.iter().flat_map(|row| self.wanted(row)).collect();
        packages.sort_unstable();
        packages.dedup();
        if venv.install(&packages)?.is_ok() {
            return Ok(vec![None; rows.len()]);
        }
        rows.iter().map(|row| Ok(venv.install(&self.wanted(row))?.err())).collect()
    }

    /// The packages that pip installs for a row.
    fn wanted<'b>(&'b self, row: &'b Row) -> Vec<&'b str> {
        let wanted = |package: &'b String| {
            let pin = self.subject.pins.iter().find(|(name, _)| name == package);
            pin.map_or(package.as_str(), |(_, pin)| pin)
        };
        row.packages.iter().map(wanted).collect()
    }

    fn table<'b>(&self, rows: &'b [(Row, Option<Finding>)]) -> page::Table<'b> {
        let python = format!("3.{}", self.python.minor);
        let (copies, rounds) = (self.trial.copies, self.trial.rounds);
        let (lazy, imports) = match self.trial.imports {
            Imports::Eager => ("", ""),
            Imports::Lazy => (" --imports lazy", " Imports by a profile."),
        };
        let run = format!("{copies} copies at once, {rounds} rounds in each.{imports}");
        let list = self.subject.list;
        let gpu = if list == List::Gpu { " --gpu" } else { "" };
        match list {
            List::Wheels => page::Table {
                list,
                options: format!("--python {python}{lazy}"),
                run: format!("CPython {python}, {run}"),
                rows,
            },
            List::Areas | List::Gpu => {
                let release = rows.iter().find_map(|(_, it)| it.as_ref()?.release.clone());
                let release = release.unwrap_or_else(|| "of no known release".to_owned());
                let torch = release.split('.').take(2).collect::<Vec<_>>().join(".");
                page::Table {
                    list,
                    options: format!("--python {python} --torch {torch}{gpu}{lazy}"),
                    run: format!("CPython {python}, torch {release}, {run}"),
                    rows,
                }
            }
        }
    }

    fn end(&self, rows: Vec<Row>) -> Result<()> {
        let rows: Vec<_> = rows
            .into_iter()
            .map(|row| {
                let finding = self.kept.load(&row.work);
                (row, finding)
            })
            .collect();
        if let Some(page) = &self.arguments.table {
            page::write(page, &self.table(&rows))?;
        }
        let mut failed = Vec::new();
        let mut equal = 0;
        for (row, finding) in &rows {
            match finding {
                Some(finding) if finding.outcome.is_fine() => equal += 1,
                Some(finding) => failed.push(format!("  {}: {}", row.work, finding.words())),
                None => {}
            }
        }
        let missing = rows.len() - equal - failed.len();
        println!("{equal} passed, {} failed, {missing} not run", failed.len());
        if !failed.is_empty() {
            bail!("not as in plain python:\n{}", failed.join("\n"));
        }
        Ok(())
    }
}

/// Code shared by pieces of work: the programs beside their folder.
fn common(list: List) -> Result<Vec<u8>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(list.folder()).context("listing the pieces of work")? {
        let path = entry.context("listing the pieces of work")?.path();
        if path.extension().is_some_and(|extension| extension == "py") {
            files.push(path);
        }
    }
    files.sort_unstable();
    let texts: Result<Vec<Vec<u8>>> = files.iter().map(|path| digest::read(path)).collect();
    Ok(texts?.concat())
}
