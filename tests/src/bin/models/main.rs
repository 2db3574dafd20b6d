//! What `cargo xtask models` runs on a package that stock torch.package has written.

mod agree;
mod memory;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};
use hydrozoa::{Builder, Pool};

#[derive(Parser)]
#[command(about = "Packaged models in several interpreters, beside what plain python computes")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Loads a package into two interpreters, calls it in both at once, and compares with plain python
    Agree(agree::Options),
    /// Private memory of each further interpreter, and of a second process with the same file
    Memory(memory::Options),
}

/// What both tasks need.
#[derive(clap::Args)]
struct Place {
    /// The package
    #[arg(long)]
    package: PathBuf,
    /// What plain python computed, as tests/models/check.py encodes it
    #[arg(long)]
    expected: PathBuf,
    /// A virtual environment with torch, and without what the package brings
    #[arg(long)]
    venv: PathBuf,
}

impl Place {
    fn builder(&self, interpreters: usize) -> Builder {
        Pool::builder().interpreters(interpreters).venv(&self.venv)
    }

    fn pool(&self, interpreters: usize) -> Result<Pool> {
        let pool = self.builder(interpreters).build()?;
        Self::prepare(&pool)?;
        Ok(pool)
    }

    fn prepare(pool: &Pool) -> hydrozoa::Result<()> {
        for interpreter in pool.interpreters() {
            // The exporter uses this number too. The number of threads decides how sums are split, and so their bits.
            interpreter
                .session()
                .run("import torch, numpy\ntorch.set_num_threads(1)", "prepare.py")?;
        }
        Ok(())
    }
}

/// The functions with which plain python made its bytes. They are compiled in, so that both have one version.
const CHECK: &str = include_str!("../../../models/check.py");

fn main() -> ExitCode {
    let result = match Arguments::parse().task {
        Task::Agree(options) => agree::run(&options),
        Task::Memory(options) => memory::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(hydrozoa::Error::Python { traceback, .. }) = error.downcast_ref() {
                eprintln!("{traceback}");
            }
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
