//! `cargo xtask lab debugger`: runs debuggers and profilers and checks what they show of replicas.
//!
//! `cargo xtask test` does not include it: it needs gdb 13, lldb, perf and permission to attach.

mod gdb;
mod host;
mod lldb;
mod package;
mod perf;

use std::process::{Command, Output};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, ValueEnum};

use self::host::Host;
use crate::steps::{Count, Steps};

/// Options of `cargo xtask lab debugger`.
#[derive(Args)]
pub(crate) struct Arguments {
    /// How many interpreters gdb attaches to
    #[arg(long, value_name = "N", default_value_t = 64)]
    copies: usize,
    /// Minor version of the CPython to inspect; its library needs debug information
    #[arg(long, value_name = "MINOR", default_value_t = 12)]
    minor: u8,
    /// Only these
    #[arg(long, value_enum, num_args = 1..)]
    only: Vec<Check>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Check {
    /// gdb attaches to many interpreters and shows a frame of the last one, in time
    GdbAttach,
    /// gdb starts the program, stops in one replica only, steps, reads variables
    GdbLive,
    /// gdb attaches to interpreters that run a library from inside a package
    PackageAttach,
    /// gdb starts them, stops in one replica of that library only, steps, reads variables
    PackageLive,
    /// lldb attaches and shows a frame by the command in loader/debuggers
    Lldb,
    /// perf names the functions of every replica
    Perf,
}

/// Runs the checks and returns an error if one fails.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let host = Host::prepare(arguments.minor)?;
    let mut steps = Steps::default();
    let wanted = |check| arguments.only.is_empty() || arguments.only.contains(&check);
    let mut step = |check, name: &str, run: &dyn Fn() -> Result<()>| {
        if wanted(check) {
            steps.run(name, || run().map(|()| Count::one(true)));
        }
    };
    let name = format!("gdb attaches to {} interpreters", arguments.copies);
    step(Check::GdbAttach, &name, &|| gdb::attach(&host, arguments.copies));
    step(Check::GdbLive, "gdb stops in one replica of three", &|| gdb::live(&host));
    step(Check::PackageAttach, "gdb attaches to a library from inside a package", &|| {
        package::attach(&host)
    });
    step(Check::PackageLive, "gdb stops in one replica of such a library", &|| {
        package::live(&host)
    });
    step(Check::Lldb, "lldb names the frames of a replica", &|| lldb::attach(&host));
    step(Check::Perf, "perf names the functions of three replicas", &|| perf::record(&host));
    if !steps.summary() {
        bail!("a check failed; its error is above");
    }
    Ok(())
}

/// Runs a tool to its end. If the tool is not installed, the error names it.
fn tool(command: &mut Command, package: &str) -> Result<Output> {
    command.output().with_context(|| {
        let program = command.get_program().to_string_lossy().into_owned();
        format!("{program} cannot be started (Debian has it in {package})")
    })
}

/// The tool's output, or an error with the end of that output.
fn text_of(output: &Output) -> Result<String> {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}:\n{text}\n{errors}", output.status);
    Ok(text)
}
