//! The two sides: plain processes at once, and as many copies of one process at once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::report::Report;
use super::suite::{Shard, Suite};
use crate::time_limit::{self, End};
use crate::{venv, workspace};

/// The part of a time limit after which the driver prints where each thread is.
const TELLING: f64 = 0.9;

/// The limit of a plain process's data, in GiB (RLIMIT_DATA, setrlimit(2)); copies have as much each. Some tests
/// allocate until a timer interrupts them, which a busy machine does late.
const MEMORY: usize = 6;

/// How a suite's tests are run.
pub struct Sides<'a> {
    pub suite: &'a Suite,
    /// The `hydrozoa` command.
    pub command: &'a Path,
    pub environment: &'a Path,
    /// The environment's site-packages.
    pub site: &'a Path,
    pub copies: usize,
    /// The time limit of a process, in seconds.
    pub limit: f64,
}

/// Which tests of a shard run.
pub enum Choice<'a> {
    /// All but these.
    Leave(&'a BTreeSet<String>),
    /// Only these.
    Select(&'a BTreeSet<String>),
}

/// A folder of a run, with the list of tests in it.
struct Folder {
    root: tempfile::TempDir,
}

impl Folder {
    fn new(choice: &Choice<'_>) -> Result<Self> {
        let root = tempfile::tempdir().context("making a temporary folder")?;
        let (Choice::Leave(tests) | Choice::Select(tests)) = choice;
        let text: String = tests.iter().map(|test| format!("{test}\n")).collect();
        std::fs::write(root.path().join("tests"), text).context("writing a list of tests")?;
        Ok(Self { root })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    fn report(&self, number: usize) -> Report {
        Report::read(&self.path(&format!("copy-{number}.jsonl")))
    }
}

impl Sides<'_> {
    /// As many plain processes as there are copies, at once. Then tests affect files, ports and the machine equally on both
    /// sides.
    pub fn plain(&self, shard: &Shard, choice: &Choice<'_>) -> Result<Vec<Report>> {
        let folder = Folder::new(choice)?;
        std::thread::scope(|scope| {
            let processes: Vec<_> = (1..=self.copies)
                .map(|number| {
                    let mut command = venv::python(self.environment);
                    command.env("HYDROZOA_COPY", number.to_string());
                    self.arguments(&mut command, shard, choice, &folder, MEMORY);
                    let log = folder.path(&format!("log-{number}"));
                    let work = folder.path(&format!("work-{number}"));
                    scope.spawn(move || self.in_folder(&mut command, &work, &log))
                })
                .collect();
            for process in processes {
                process.join().expect("no panic")?;
            }
            Ok((1..=self.copies).map(|number| folder.report(number)).collect())
        })
    }

    /// All copies of one process at once.
    pub fn copies(&self, shard: &Shard, choice: &Choice<'_>) -> Result<Outcome> {
        let folder = Folder::new(choice)?;
        let mut command = venv::clean(Command::new(self.command));
        command.arg("python").arg("--venv").arg(self.environment);
        let copies = self.copies.to_string();
        command.args(["--copies", &copies, "--in", "all", "--"]);
        self.arguments(&mut command, shard, choice, &folder, MEMORY * self.copies);
        let log = folder.path("log");
        let end = self.in_folder(&mut command, &folder.path("work"), &log)?;
        let reports = (1..=self.copies).map(|number| folder.report(number)).collect();
        Ok(Outcome { end, reports, last: time_limit::last_line(&log) })
    }

    fn arguments(
        &self,
        command: &mut Command,
        shard: &Shard,
        choice: &Choice<'_>,
        folder: &Folder,
        memory: usize,
    ) {
        command.arg(workspace::root().join("tests/suites/run.py"));
        command.args(self.suite.options(self.site));
        command.arg("--folder").arg(folder.root.path());
        command.args(["--seconds", &(self.limit * TELLING).to_string()]);
        command.args(["--memory", &memory.to_string()]);
        let option = match choice {
            Choice::Leave(_) => "--leave",
            Choice::Select(_) => "--select",
        };
        command.arg(option).arg(folder.path("tests"));
        command.args(&shard.names);
    }

    /// Tests write into the current directory.
    fn in_folder(&self, command: &mut Command, work: &Path, log: &Path) -> Result<End> {
        std::fs::create_dir(work).with_context(|| format!("creating {}", work.display()))?;
        time_limit::run(command.current_dir(work), self.limit, log)
    }
}

/// The end of a process with copies.
pub struct Outcome {
    pub end: End,
    pub reports: Vec<Report>,
    /// The last line that the process printed.
    pub last: String,
}
