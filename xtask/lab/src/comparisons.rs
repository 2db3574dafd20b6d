//! The laboratories that are roles of `compare` (benches/src/bin/compare): the set-up of each, and the role's own options.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::environment::{self, Environment};
use crate::{compare, python, workspace};

/// Options of a comparison.
#[derive(clap::Args, Clone)]
#[command(
    after_help = "Further options are those of the program that compares: `-- --help` lists them."
)]
pub struct Arguments {
    #[command(flatten)]
    environment: environment::Arguments,
    /// Options of the program that compares, after those above
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
    options: Vec<String>,
}

/// Options of `cargo xtask lab stress`.
#[derive(clap::Args, Clone)]
pub struct Stress {
    /// Nothing but the standard library
    #[arg(long, conflicts_with_all = ["torch", "venv"])]
    bare: bool,
    /// Each operation begins with tensors of torch
    #[arg(long)]
    torch: bool,
    /// A virtual environment with numpy, or torch; without it one is made
    #[arg(long, value_name = "DIR", conflicts_with = "python")]
    venv: Option<PathBuf>,
    #[command(flatten)]
    arguments: Arguments,
}

/// The program.
pub fn program() -> Result<PathBuf> {
    workspace::build("hydrozoa-benches", "compare")
}

/// Runs a comparison to its end. It has said what is wrong.
pub fn compared(command: &mut Command) -> Result<()> {
    let status = command.env("OMP_NUM_THREADS", "1").status().context("starting it")?;
    ensure!(status.success(), "the comparison failed, or a promise was not kept");
    Ok(())
}

impl Arguments {
    /// Makes the environment, builds the program and runs it as `make` says.
    fn run(&self, make: impl FnOnce(&Path, &Environment) -> Result<Command>) -> Result<()> {
        let environment = Environment::prepare(&self.environment)?;
        compared(make(&program()?, &environment)?.args(self.further()))
    }

    /// The program's own options. `--` may stand before and between them.
    fn further(&self) -> impl Iterator<Item = &String> {
        self.options.iter().filter(|option| *option != "--")
    }

    /// Runs a role that needs torch alone.
    pub fn role(&self, name: &str) -> Result<()> {
        self.run(|compare, environment| Ok(compare::role(compare, name, environment.root())))
    }

    /// Two models on interpreters, threads and processes.
    pub fn demo(&self) -> Result<()> {
        self.run(|compare, environment| {
            Ok(compare::comparison(compare, environment, &compare::export(environment)?))
        })
    }

    /// Whether private memory grows with use.
    pub fn soak(&self) -> Result<()> {
        self.run(|compare, environment| {
            let models = compare::export(environment)?;
            Ok(compare::with_models(compare, "soak", environment, &models))
        })
    }

    /// Large weights.
    pub fn weights(&self) -> Result<()> {
        self.run(compare::weights)
    }

    /// Six pieces of work by all contenders.
    pub fn workloads(&self) -> Result<()> {
        self.run(|compare, environment| compare::workloads(compare, &environment.with_workloads()?))
    }
}

impl Stress {
    /// Random operations of the public interface.
    pub fn run(&self) -> Result<()> {
        let environment = &self.arguments.environment;
        let wanted = environment.python.as_ref();
        let root = match &self.venv {
            Some(root) => Some(root.clone()),
            None if self.bare => None,
            None if self.torch => Some(Environment::prepare(environment)?.root().into()),
            None => Some(Environment::with_numpy(python::find(wanted)?)?.root().into()),
        };
        let mut command = Command::new(program()?);
        command.arg("stress").args(self.torch.then_some("--torch"));
        match root {
            Some(root) => command.arg("--venv").arg(root),
            None => command.arg("--python").arg(python::find(wanted)?.executable),
        };
        compared(command.args(self.arguments.further()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Lab {
        #[command(flatten)]
        stress: Stress,
    }

    #[test]
    fn the_program_s_options_are_passed_on() {
        let parsed = |line: &str| Lab::parse_from(line.split(' ')).stress;
        let further =
            |stress: &Stress| -> Vec<String> { stress.arguments.further().cloned().collect() };
        let stress = parsed("lab --bare --python 3.13 --minutes 5 -- --only calls,pools");
        assert!(stress.bare && stress.arguments.environment.python.is_some());
        assert_eq!(further(&stress), ["--minutes", "5", "--only", "calls,pools"]);
        assert_eq!(further(&parsed("lab -- --help")), ["--help"]);
    }
}
