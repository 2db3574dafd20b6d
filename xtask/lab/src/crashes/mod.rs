//! `cargo xtask lab crashes`: crashes that interpreters contain, in numbers, at random instructions, and of released wheels.

mod faults;
mod list;

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::environment::{self, Environment};
use crate::libtest::counted;
use crate::workspace;

/// A laboratory of crashes.
#[derive(clap::Subcommand, Clone)]
pub enum Crashes {
    /// Crashes of random kinds in one process, while three other interpreters serve: their latencies, and what each crash leaves
    ///
    /// `--bare 1000 --numpy 1000 --torch 1000` is the long form. Rounds of crashes take turns with rounds of replacements without
    /// a crash.
    Soak(Soak),
    /// Faults at random instructions of imports, of calls, and of a model of torch: contained, or a death with a report
    ///
    /// It prints a table for each kind of work: contained, deaths by the reason that the report has, hangs, wrong answers. A hang
    /// is shown with gdb's stacks. `--reports FILE` keeps the reports of deaths.
    Inject(Inject),
    /// Crashes of released wheels that people have met: contained, or not for a reason that the list has
    ///
    /// A new row is a file in tests/faults/work and a line of tests/faults/faults.txt.
    Faults(faults::Arguments),
}

/// Options of `cargo xtask lab crashes soak`.
#[derive(clap::Args, Clone)]
pub struct Soak {
    #[command(flatten)]
    environment: environment::Arguments,
    /// Crashes without packages
    #[arg(long, value_name = "N", default_value_t = 200)]
    bare: u64,
    /// Crashes with numpy
    #[arg(long, value_name = "N", default_value_t = 0)]
    numpy: u64,
    /// Crashes with torch
    #[arg(long, value_name = "N", default_value_t = 0)]
    torch: u64,
}

/// Options of `cargo xtask lab crashes inject`.
#[derive(clap::Args, Clone)]
pub struct Inject {
    #[command(flatten)]
    environment: environment::Arguments,
    /// Faults in imports and calls of the standard library
    #[arg(long, value_name = "N", default_value_t = 300)]
    bare: u64,
    /// Faults in threads of Python
    #[arg(long, value_name = "N", default_value_t = 100)]
    threads: u64,
    /// Faults in calls of the C library, of the loader and of the kernel
    #[arg(long, value_name = "N", default_value_t = 100)]
    system: u64,
    /// Faults in numpy, its import included
    #[arg(long, value_name = "N", default_value_t = 0)]
    numpy: u64,
    /// Faults in a model of torch, its import included
    #[arg(long, value_name = "N", default_value_t = 0)]
    torch: u64,
    /// Adds the reports of deaths to this file
    #[arg(long, value_name = "FILE")]
    reports: Option<std::path::PathBuf>,
}

/// Runs one of them. An error if a crash had consequences that it must not have.
pub fn run(crashes: &Crashes) -> Result<()> {
    match crashes {
        Crashes::Soak(soak) => soak.run(),
        Crashes::Inject(inject) => inject.run(),
        Crashes::Faults(arguments) => faults::run(arguments),
    }
}

impl Soak {
    fn run(&self) -> Result<()> {
        let environment = Environment::prepare(&self.environment)?;
        const TEST: &str = "crashes_of_random_kinds_leave_nothing_and_others_notice_nothing";
        let kinds = [(self.bare, "none"), (self.numpy, "numpy"), (self.torch, "torch")];
        let tests = kinds.into_iter().map(|(count, packages)| {
            let mut command = test_of(&environment, "endurance", TEST);
            command.env("HYDROZOA_TEST_CRASHES", count.to_string());
            command.env("HYDROZOA_TEST_CRASHING", packages);
            (count, command)
        });
        all(tests)
    }
}

impl Inject {
    fn run(&self) -> Result<()> {
        let environment = Environment::prepare(&self.environment)?;
        let kinds = [
            (self.bare, "imports_and_calls"),
            (self.threads, "python_threads"),
            (self.system, "the_c_library"),
            (self.numpy, "numpy"),
            (self.torch, "torch"),
        ];
        let tests = kinds.into_iter().map(|(count, kind)| {
            let name = format!("faults_at_random_instructions_of_{kind}_are_contained_or_reported");
            let mut command = test_of(&environment, "injections", &name);
            command.env("HYDROZOA_TEST_INJECTIONS", count.to_string());
            if let Some(reports) = &self.reports {
                command.env("HYDROZOA_TEST_INJECTED_REPORTS", reports);
            }
            (count, command)
        });
        all(tests)
    }
}

/// The command of a test of the runtime, built as a program that serves is.
fn test_of(environment: &Environment, program: &str, test: &str) -> Command {
    let mut command = workspace::cargo();
    command.args(["test", "--release", "--package", "hydrozoa", "--test", program]);
    command.args(["--", "--exact", test]);
    command.env("HYDROZOA_TEST_VENV", environment.root()).env("OMP_NUM_THREADS", "1");
    command
}

/// Runs those of the tests that have something to do, even after a failure, and prints what they have measured.
fn all(tests: impl Iterator<Item = (u64, Command)>) -> Result<()> {
    let mut failed = 0;
    for (_, mut command) in tests.filter(|(count, _)| *count > 0) {
        let folder = tempfile::tempdir().context("making a temporary folder")?;
        let table = folder.path().join("table");
        let outcome = counted(command.env("HYDROZOA_TEST_TABLE", &table))?;
        failed += outcome.count.failed;
        print!("{}", std::fs::read_to_string(&table).unwrap_or_default());
    }
    ensure!(failed == 0, "a crash had consequences; see above");
    Ok(())
}
