//! `load`: requests to a server of models, by many connections, each answer checked to the bit.
//!
//! The same client asks all serving systems that `cargo xtask lab serve` compares. It prints one line of JSON.

mod cases;
mod client;
mod closed;
mod open;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};

use cases::{Cases, Style};
use client::Target;

#[derive(Parser)]
#[command(name = "load", about = "Requests to a server of models, each answer checked to the bit")]
struct Arguments {
    /// The port of the server, at 127.0.0.1
    #[arg(long)]
    port: u16,
    /// Where requests go
    #[arg(long)]
    path: String,
    /// How tensors are in bodies
    #[arg(long, value_enum)]
    style: Style,
    /// The folder with inputs and outputs
    #[arg(long)]
    cases: PathBuf,
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Subcommand)]
enum Kind {
    /// Each connection sends its next request when it has the answer
    Closed(closed::Options),
    /// Requests at fixed times, however many are unanswered; then whether the server has recovered
    Open(open::Options),
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // The caller shows this message; a stack of the client's own tasks says nothing about the server.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    let cases = Cases::read(&arguments.cases, arguments.style)?;
    let target = Target::new(arguments.port, &arguments.path, &cases)?;
    // One thread: a client that takes little leaves the processors to the server.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = match &arguments.kind {
        Kind::Closed(options) => {
            serde_json::to_string(&runtime.block_on(closed::run(options, target, cases))?)?
        }
        Kind::Open(options) => {
            serde_json::to_string(&runtime.block_on(open::run(options, target, cases))?)?
        }
    };
    println!("{report}");
    // Connections that still wait are of no use.
    runtime.shutdown_timeout(Duration::from_millis(100));
    Ok(())
}
