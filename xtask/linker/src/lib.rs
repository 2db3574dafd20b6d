//! `cargo xtask linker`: compares the loader with glibc's on real files.

pub mod cases;
mod differential;
mod glibc;
mod machine;
mod object;
pub mod random;
mod shim;
mod words;

use std::num::NonZero;
use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Options of `cargo xtask linker`.
#[derive(Args)]
pub struct Arguments {
    /// Compare every relocated word of these with glibc's: shared objects, wheels,
    /// or directories of either
    #[arg(long, value_name = "FILE|DIR|WHEEL", num_args = 1..)]
    differential: Vec<PathBuf>,
    /// The libpython whose symbols extensions refer to
    #[arg(long, value_name = "LIBPYTHON")]
    python: Option<PathBuf>,
    /// Run the tests of glibc's loader, or those of mold that call dlopen, whose source tree this is,
    /// against ours
    #[arg(long, value_name = "DIR", conflicts_with = "differential")]
    shim: Option<PathBuf>,
    /// Write the table as Markdown
    #[arg(long, value_name = "FILE")]
    table: Option<PathBuf>,
    /// Only cases whose name or area holds this
    #[arg(long, value_name = "NAME", num_args = 1..)]
    only: Vec<String>,
    /// Not the cases of these names
    #[arg(long, value_name = "NAME", num_args = 1..)]
    except: Vec<String>,
    /// Each case with its first compiler and linker only
    #[arg(long)]
    quick: bool,
    /// Only each Nth of the cases
    #[arg(long, value_name = "N")]
    every: Option<NonZero<usize>>,
    /// Draw N programs at random and run them by both loaders
    #[arg(long, value_name = "N")]
    random: Option<u64>,
    /// The seed of the first of them; the others' follow it
    #[arg(long, value_name = "S", default_value_t = random::QUICK_SEED, requires = "random")]
    seed: u64,
    #[command(subcommand)]
    worker: Option<Worker>,
}

/// Parts that run in processes of their own.
#[derive(Subcommand)]
enum Worker {
    /// Relocates one object by one loader and writes its words to standard output
    #[command(hide = true)]
    Words(words::Arguments),
    /// Runs one case by one loader
    #[command(hide = true)]
    Job(cases::job::Arguments),
}

/// Runs the task: the cases, or the comparison of the files that `--differential` names.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    match &arguments.worker {
        Some(Worker::Words(words)) => words::run(words),
        Some(Worker::Job(job)) => cases::job::run(job),
        None if let Some(sources) = &arguments.shim => {
            shim::run(sources, &arguments.only, arguments.table.as_deref())
        }
        None if let Some(count) = arguments.random => {
            let failed = random::run(count, arguments.seed)?.count.failed;
            anyhow::ensure!(failed == 0, "{failed} random programs differ");
            Ok(())
        }
        None if arguments.differential.is_empty() => {
            let selection = cases::Selection {
                names: arguments.only.clone(),
                except: arguments.except.clone(),
                quick: arguments.quick,
                every: arguments.every,
            };
            let failed = cases::run(&selection)?.count.failed;
            anyhow::ensure!(failed == 0, "{failed} builds failed");
            let all = arguments.only.is_empty()
                && arguments.except.is_empty()
                && arguments.every.is_none();
            if arguments.quick && all {
                let quick = random::run(random::QUICK_COUNT, random::QUICK_SEED)?;
                let failed = quick.count.failed;
                anyhow::ensure!(failed == 0, "{failed} random programs differ");
            }
            Ok(())
        }
        None => differential::run(
            &arguments.differential,
            arguments.python.as_deref(),
            arguments.table.as_deref(),
        ),
    }
}
