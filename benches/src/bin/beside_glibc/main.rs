//! The loader's promised speed: each figure compared with glibc's for the same work, in one run.
//!
//! The rounds of both are interleaved, so that other load on the machine affects both. The median of the rounds'
//! ratios counts. A broken promise is an error.

mod exceptions;
mod fixture;
mod floor;
mod many;
mod phases;
mod replicas;
mod rounds;
mod thread_local;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "The loader's promised speed, beside glibc's loader in the same run")]
struct Arguments {
    #[command(subcommand)]
    measurement: Measurement,
}

#[derive(Subcommand)]
enum Measurement {
    /// The cost of `__tls_get_addr`
    ThreadLocal(thread_local::Options),
    /// Loading a library once more, and glibc's dlopen of a fresh copy of its file
    Replicas(replicas::Options),
    /// C++ exceptions through many replicas on two threads
    Exceptions(exceptions::Options),
    /// One of the processes of `exceptions`
    #[command(hide = true)]
    Thrower(exceptions::Thrower),
    /// Whether a load costs more when many replicas are there
    Many(many::Options),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().measurement {
        Measurement::ThreadLocal(options) => thread_local::run(&options),
        Measurement::Replicas(options) => replicas::run(&options),
        Measurement::Exceptions(options) => exceptions::run(&options),
        Measurement::Thrower(options) => exceptions::throw(&options),
        Measurement::Many(options) => many::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
