//! `cargo xtask lab density`: how many workers with torch serve a model in a given amount of memory, and what each costs.

mod bare;
mod page;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::comparisons::{compared, program};
use crate::environment::{self, Environment};
use crate::{compare, workspace};

/// Options of `cargo xtask lab density`.
#[derive(clap::Args, Clone)]
pub struct Arguments {
    #[command(flatten)]
    environment: environment::Arguments,
    /// Instead: workers without any package, on each CPython: interpreters, sub-interpreters, prefork, processes
    #[arg(long)]
    bare: bool,
    /// Write every measurement to this file, as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write tables and plots to docs/performance.md, and the measurements beside it
    #[arg(long)]
    page: bool,
    /// Measure nothing: read what an earlier run has written
    #[arg(long, value_name = "FILE", requires = "page", conflicts_with = "csv")]
    from: Option<PathBuf>,
    /// Options of `compare density`, after `--`: limits, contenders, seconds, rounds; or of `compare bare`: workers
    #[arg(last = true, value_name = "OPTION")]
    options: Vec<String>,
}

/// A measurement and its output: the name of the file kept beside the page, and how both are made.
struct Part {
    kept: &'static str,
    measure: fn(&Arguments, &Path) -> Result<()>,
    write: fn(&Path, &Path) -> Result<()>,
}

const SERVED: Part = Part { kept: "density.csv", measure, write: page::write };
const BARE: Part = Part { kept: "bare.csv", measure: bare::measure, write: bare::write };

/// Measures, unless an earlier run's measurements are named, and writes the page if that is asked. Returns an error if an output
/// differs.
pub fn run(arguments: &Arguments) -> Result<()> {
    let part = if arguments.bare { BARE } else { SERVED };
    let written = match (&arguments.from, &arguments.csv) {
        (Some(path), _) => path.clone(),
        (None, csv) => {
            let scratch = workspace::target()?.join(part.kept);
            let path = csv.as_ref().unwrap_or(&scratch);
            (part.measure)(arguments, path)?;
            path.clone()
        }
    };
    if arguments.page {
        let docs = workspace::root().join("docs");
        let kept = docs.join("performance").join(part.kept);
        (part.write)(&docs.join("performance.md"), &written)?;
        if written.canonicalize().ok() != kept.canonicalize().ok() {
            std::fs::copy(&written, &kept)
                .with_context(|| format!("writing {}", kept.display()))?;
        }
    }
    Ok(())
}

/// Sets up, exports the model and compares. Needs the right to make control groups.
fn measure(arguments: &Arguments, csv: &Path) -> Result<()> {
    let environment = Environment::prepare(&arguments.environment)?;
    let models = compare::export(&environment)?;
    let mut command =
        compare::beside_rivals(&program()?, "density", "density.py", &environment, &models);
    compared(command.arg("--csv").arg(csv).args(&arguments.options))
}
