//! `cargo xtask linker`: the loader beside glibc's, on real files.

mod differential;
mod object;
mod words;

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Options of `cargo xtask linker`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Compare every relocated word of these with what glibc makes of it: shared objects, wheels,
    /// or directories of either
    #[arg(long, value_name = "FILE|DIR|WHEEL", num_args = 1..)]
    differential: Vec<PathBuf>,
    /// The libpython whose symbols extensions refer to
    #[arg(long, value_name = "LIBPYTHON")]
    python: Option<PathBuf>,
    /// Write the table as Markdown
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    #[command(subcommand)]
    worker: Option<Worker>,
}

/// Parts that run in processes of their own.
#[derive(Subcommand)]
enum Worker {
    /// Relocates one object by one loader and writes its words to standard output
    #[command(hide = true)]
    Words(words::Arguments),
}

/// Runs the task.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.worker {
        Some(Worker::Words(words)) => words::run(words),
        None => differential::run(
            &arguments.differential,
            arguments.python.as_deref(),
            arguments.table.as_deref(),
        ),
    }
}
