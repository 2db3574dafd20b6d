//! `cargo xtask speed`: checks the promised speed of loader, calls, Python code and starts, each beside its rival in the same run.

mod calls;
mod kernels;
mod loader;
mod starts;

use anyhow::{Result, ensure};
use clap::ValueEnum;

use crate::environment;

/// Options of `cargo xtask speed`.
#[derive(clap::Args, Clone)]
pub struct Arguments {
    #[command(flatten)]
    environment: environment::Arguments,
    /// What to measure; without it all
    #[arg(value_enum)]
    side: Option<Side>,
}

/// A part of Hydrozoa with a promised speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Side {
    /// Loading libraries, beside glibc's loader
    Loader,
    /// Calls from Rust to Python and back, beside PyO3
    Calls,
    /// Python code with a profile of imports, and settled, beside eager imports
    Kernels,
    /// Further interpreters with torch, eager, beside processes: one alone, and four at once
    Starts,
}

/// Makes every measurement. Returns an error if a promise is broken.
pub fn run(arguments: &Arguments) -> Result<()> {
    let wanted = |side| arguments.side.is_none_or(|wanted| wanted == side);
    let mut outcomes = Vec::new();
    if wanted(Side::Calls) {
        outcomes.extend(calls::measure(&arguments.environment)?);
    }
    if wanted(Side::Kernels) {
        outcomes.extend(kernels::measure(&arguments.environment)?);
    }
    if wanted(Side::Loader) {
        outcomes.extend(loader::measure(&arguments.environment)?);
    }
    if wanted(Side::Starts) {
        outcomes.extend(starts::measure(&arguments.environment)?);
    }
    let broken = outcomes.iter().filter(|kept| !**kept).count();
    ensure!(broken == 0, "{broken} of {} measurements break a promise", outcomes.len());
    Ok(())
}
