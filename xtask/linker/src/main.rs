//! `cargo xtask linker` as a program of its own, for machines that have neither cargo nor Python.

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "The loader beside the C library's")]
struct Program {
    #[command(subcommand)]
    task: Task,
}

/// The name by which the parts that run in processes of their own are started.
#[derive(Subcommand)]
enum Task {
    /// Cases, random programs, relocated words
    Linker(hydrozoa_linker_tests::Arguments),
}

fn main() -> anyhow::Result<()> {
    let Task::Linker(arguments) = Program::parse().task;
    hydrozoa_linker_tests::run(&arguments)
}
