//! `pages`: requests to a web application by many connections, each body compared with plain python's.
//!
//! The same client asks all servers that `cargo xtask lab web` compares. It prints one line of JSON.

mod cases;
mod closed;
mod connection;
mod report;
mod steady;

use std::path::PathBuf;
use std::process::ExitCode;
use std::rc::Rc;

use anyhow::Result;
use clap::{Parser, Subcommand};
use tokio::task::LocalSet;

use cases::Cases;
use connection::Target;

#[derive(Parser)]
#[command(name = "pages", about = "Requests to a web application, each body compared")]
struct Arguments {
    /// The port of the server, at 127.0.0.1
    #[arg(long)]
    port: u16,
    /// The folder with requests and the bodies of their right responses
    #[arg(long)]
    cases: PathBuf,
    /// How many connections
    #[arg(long)]
    connections: usize,
    /// Requests after which a connection is closed and opened again; without it none is
    #[arg(long)]
    renew: Option<usize>,
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Subcommand)]
enum Kind {
    /// Each connection sends its next request when it has the response
    Closed(closed::Options),
    /// Requests at fixed times, the connections in turn
    Steady(steady::Options),
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
    let target = Target {
        port: arguments.port,
        cases: Rc::new(Cases::read(&arguments.cases)?),
        renew: arguments.renew,
    };
    let connections = arguments.connections;
    // One thread: a client that takes little leaves the processors to the server.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = LocalSet::new().block_on(&runtime, async {
        match &arguments.kind {
            Kind::Closed(options) => closed::run(options, &target, connections).await,
            Kind::Steady(options) => steady::run(options, &target, connections).await,
        }
    })?;
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_so_many_or_of_so_much_time() {
        let parses = |line: &str| {
            let words =
                "pages --port 1 --cases d --connections 2".split(' ').chain(line.split(' '));
            Arguments::try_parse_from(words).is_ok()
        };
        assert!(parses("closed --requests 5") && parses("closed --seconds 1 --warm 0.5"));
        assert!(parses("steady --rate 50 --seconds 30"));
        assert!(!parses("closed --warm 1") && !parses("closed --requests 5 --seconds 1"));
    }
}
