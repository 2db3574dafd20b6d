//! `cargo xtask wheels`: a piece of work with each of the most used wheels, in several copies at once, beside plain python.
//!
//! The `hydrozoa` command runs the copies, as a user would. tests/wheels has the list, the driver and the pieces of work.

mod finding;
mod list;
mod page;
mod trial;

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};

use crate::python::{self, Python};
use crate::venv::Venv;
use crate::{cache, digest, environment, workspace};
use finding::{Finding, Kept, Outcome};
use list::Row;
use trial::Trial;

/// Options of `cargo xtask wheels`.
#[derive(clap::Args, Clone)]
pub struct Arguments {
    #[command(flatten)]
    environment: environment::Arguments,
    /// Only these rows of tests/wheels/wheels.txt, or the rows of these environments
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
    /// How many copies run at once
    #[arg(long, value_name = "N", default_value_t = 3)]
    copies: usize,
    /// How often each copy does its work
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// How often in a row a process with all copies is started; a row is equal if it is equal each time
    #[arg(long, value_name = "N", default_value_t = 1)]
    times: usize,
    /// The time limit of a process, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 300.0)]
    limit: f64,
    /// The `hydrozoa` command to try; without it, it is built from this checkout
    #[arg(long, value_name = "FILE")]
    command: Option<PathBuf>,
    /// Leave the virtual environments in the cache, and use those that an earlier run left: up to 15 GB
    #[arg(long)]
    keep: bool,
}

/// Runs the rows and writes the table. Returns an error if a row is neither equal nor without a wheel.
pub fn run(arguments: &Arguments) -> Result<()> {
    let rows = list::rows()?;
    for name in &arguments.only {
        ensure!(
            rows.iter().any(|row| row.work == *name || row.environment == *name),
            "tests/wheels/wheels.txt has no row and no environment {name}"
        );
    }
    let run = Run::prepare(arguments)?;
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

/// What all rows of a run need.
struct Run<'a> {
    arguments: &'a Arguments,
    python: Python,
    trial: Trial,
    kept: Kept,
    /// The digest of the program and the options.
    key: String,
    folder: PathBuf,
    /// A second run would install and remove the same environments.
    _lock: cache::Entry,
}

impl<'a> Run<'a> {
    fn prepare(arguments: &'a Arguments) -> Result<Self> {
        let python = python::find(arguments.environment.python)?;
        let command = match &arguments.command {
            Some(command) => {
                command.canonicalize().with_context(|| format!("finding {}", command.display()))?
            }
            None => workspace::build("hydrozoa-cli", "hydrozoa")?,
        };
        let lock = cache::Entry::open(&format!("wheels-cp3{}", python.minor))?;
        let folder = lock.folder().to_owned();
        let kept = Kept::open(&folder)?;
        let driver = list::folder().join("run.py");
        let options = format!("{} {} {}", arguments.copies, arguments.rounds, arguments.times);
        let key = digest::of(&[
            &digest::read(&command)?,
            &digest::read(&driver)?,
            options.as_bytes(),
            python.executable.as_os_str().as_encoded_bytes(),
        ]);
        let trial = Trial {
            command,
            copies: arguments.copies,
            rounds: arguments.rounds,
            times: arguments.times,
            limit: arguments.limit,
        };
        Ok(Self { arguments, python, trial, kept, key, folder, _lock: lock })
    }

    /// What a finding of the row depends on. The releases are not part of it: pip decides them.
    fn key(&self, row: &Row) -> Result<String> {
        Ok(digest::of(&[
            self.key.as_bytes(),
            &digest::read(&row.file())?,
            row.packages.join(" ").as_bytes(),
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
        let name = &rows[0].environment;
        let root = self.folder.join(format!("venv-{name}"));
        eprintln!("environment {name}: installing for {} rows", rows.len());
        let venv = Venv::open(&self.python, &root, self.arguments.keep)?;
        let absent = install(&venv, rows)?;
        for ((row, absent), number) in rows.iter().zip(absent).zip(done + 1..) {
            let start = std::time::Instant::now();
            let key = self.key(row)?;
            let finding = match absent {
                Some(reason) => Finding::of(Outcome::NoWheel, reason, &key),
                None => self.trial.run(row, venv.root(), &key)?,
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

    fn end(&self, rows: Vec<Row>) -> Result<()> {
        let rows: Vec<_> = rows
            .into_iter()
            .map(|row| {
                let finding = self.kept.load(&row.work);
                (row, finding)
            })
            .collect();
        if let Some(page) = &self.arguments.table {
            let table = page::Table {
                minor: self.python.minor,
                copies: self.trial.copies,
                rounds: self.trial.rounds,
                rows: &rows,
            };
            page::write(page, &table)?;
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

/// Installs all packages at once. If pip cannot, each row's packages are installed alone; for each row the reason why it
/// has none, or `None`.
fn install(venv: &Venv, rows: &[&Row]) -> Result<Vec<Option<String>>> {
    let mut packages: Vec<&str> =
        rows.iter().flat_map(|row| row.packages.iter().map(String::as_str)).collect();
    packages.sort_unstable();
    packages.dedup();
    if venv.install(&packages)?.is_ok() {
        return Ok(vec![None; rows.len()]);
    }
    rows.iter()
        .map(|row| {
            let packages: Vec<&str> = row.packages.iter().map(String::as_str).collect();
            Ok(venv.install(&packages)?.err())
        })
        .collect()
}
