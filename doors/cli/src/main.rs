//! The `hydrozoa` command: the library from a shell.

// `hydrozoa python` behaves as python does, whose process Rust's runtime has not prepared.
#![cfg_attr(not(test), no_main)]

#[macro_use]
mod output;

mod bench;
mod dense;
mod doctor;
mod inspect;
mod log;
mod missing_module;
mod network;
mod package;
mod python;
mod run;
mod seal;
mod sealed;
mod security;
mod serve;
mod shutdown;
#[cfg(feature = "otel")]
mod traces;

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use hydrozoa::{LibraryRules, entry};

#[derive(Parser)]
#[command(name = "hydrozoa", about = "Many complete CPython interpreters in one process", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs `python ARGS…` inside a copy of Python, or in several at once
    Python(python::Options),
    /// Measures a model package: throughput, latency, private memory of each interpreter
    Bench(bench::Options),
    /// Shows what a library is, whether each interpreter gets its own copy, why, and what a copy costs
    Inspect(inspect::Options),
    /// Builds, shows and checks packages of models
    Package(package::Options),
    /// Serves repositories of models and packages over HTTP and gRPC, as Triton does
    Serve(Box<serve::Options>),
    /// Serves a web application of WSGI or ASGI, whose workers are interpreters of one process
    Run(Box<run::Options>),
    /// Seals an application: one executable file with its Python, packages and native libraries, which reads nothing else
    Seal(Box<seal::Options>),
    /// Lists the Pythons, torch and limits that it finds, and says what would fail and how to fix it
    Doctor(doctor::Options),
}

/// Which Python, and which libraries its copies share.
#[derive(clap::Args, Clone)]
struct Choice {
    /// A version such as 3.12, a python executable, the prefix of an installation or a libpython3.X.so; by default the
    /// best Python that the command finds
    #[arg(long, value_name = "PYTHON")]
    python: Option<PathBuf>,
    /// A virtual environment whose packages interpreters see
    #[arg(long, value_name = "DIR")]
    venv: Option<PathBuf>,
    /// Load libraries whose path matches once for all copies, unless they need the interpreter's own symbols
    #[arg(long, value_name = "PATTERN")]
    share: Vec<String>,
    /// Load a replica of libraries whose path matches for each copy; this rule stands before --share
    #[arg(long, value_name = "PATTERN")]
    replicate: Vec<String>,
}

impl Choice {
    /// The rules for libraries.
    fn libraries(&self) -> LibraryRules {
        let shared = self.share.iter().fold(LibraryRules::new(), LibraryRules::share);
        self.replicate.iter().fold(shared, LibraryRules::replicate)
    }

    /// Settings of a pool of that Python.
    fn builder(&self) -> hydrozoa::Builder {
        let mut builder = hydrozoa::Pool::builder().libraries(&self.libraries());
        if let Some(python) = &self.python {
            builder = builder.python(python);
        }
        if let Some(venv) = &self.venv {
            builder = builder.venv(venv);
        }
        builder
    }

    /// A pool of interpreters of that Python.
    fn pool(&self, interpreters: usize) -> hydrozoa::Result<hydrozoa::Pool> {
        self.builder().interpreters(interpreters).build()
    }
}

/// Reads a number of interpreters, copies or threads.
fn count(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "a number from 1".to_owned())
}

/// Reads a number of bytes, perhaps with K, M or G behind it, for powers of 1024.
fn bytes(text: &str) -> Result<usize, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match &*text[digits.len()..].to_ascii_uppercase() {
        "" | "B" => Some(0),
        "K" | "KIB" => Some(10),
        "M" | "MIB" => Some(20),
        "G" | "GIB" => Some(30),
        _ => None,
    };
    let factor = shift.map(|shift| 1 << shift);
    let number = factor.and_then(|factor: usize| digits.parse::<usize>().ok()?.checked_mul(factor));
    number.ok_or_else(|| "a number of bytes, such as 1000000 or 500M".to_owned())
}

#[cfg(not(test))]
hydrozoa::c_main!(begin);

/// Returns the exit status.
#[cfg_attr(test, expect(dead_code, reason = "the test harness has an entry of its own"))]
fn begin() -> i32 {
    match sealed::begin() {
        Some(Ok(status)) => return status,
        Some(Err(error)) => {
            output::complain(&error);
            return 1;
        }
        None => {}
    }
    let command = Arguments::parse().command;
    // The copy's warnings must not go to what its program opens in place of standard error.
    // A server has a log of its own.
    if output::has_standard_error() && !matches!(command, Command::Serve(_) | Command::Run(_)) {
        output::show_warnings();
    }
    match &command {
        Command::Python(options) if options.in_one() => {}
        _ => entry::begin_as_rust(),
    }
    let outcome = match command {
        Command::Python(options) => python::run(options),
        Command::Bench(options) => bench::run(&options),
        Command::Inspect(options) => inspect::run(&options),
        Command::Package(options) => package::run(options),
        Command::Serve(options) => serve::run(&options),
        Command::Run(options) => run::run(&options),
        Command::Seal(options) => seal::run(*options),
        Command::Doctor(options) => doctor::run(&options),
    };
    match outcome {
        // A python program may end with any status. The system keeps the lowest byte (exit(3)).
        Ok(status) => status,
        Err(error) => {
            output::complain(&error);
            1
        }
    }
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn a_number_of_bytes_may_have_a_suffix() {
        let right = [("0", 0), ("17", 17), ("3k", 3 << 10), ("500M", 500 << 20), ("2GiB", 2 << 30)];
        for (text, number) in right {
            assert_eq!(bytes(text), Ok(number), "{text}");
        }
        for wrong in ["", "M", "-1", "1.5G", "1X", "99999999999G", "\u{661}"] {
            assert!(bytes(wrong).unwrap_err().contains("such as 1000000 or 500M"), "{wrong}");
        }
    }
}
