//! Compares interpreters with threads, processes and prefork, on the same work in the same run.

mod bare;
mod comparison;
mod control;
mod density;
mod exported;
mod fault;
mod field;
mod gpu;
mod guards;
mod kernels;
mod malloc;
mod measured;
mod ours;
mod race;
mod report;
mod scaling;
mod soak;
mod stress;
mod threads;
mod weights;
mod workloads;
mod written;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    about = "Interpreters beside threads, processes and prefork, on the same work in the same run"
)]
struct Arguments {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Starts all contenders, gives them their orders by turns, and reports
    Run(comparison::Options),
    /// Works for a long time and watches private memory
    Soak(soak::Options),
    /// Makes, calls and drops movables from many threads at random
    Race(race::Options),
    /// Random operations of the public interface by eight threads, every answer checked
    Stress(stress::Options),
    /// Stops calls that loop, sleep, block in C or eat memory, while another interpreter serves
    Control(control::Options),
    /// How many workers with torch serve a model within a limit of memory: interpreters, prefork, processes
    Density(density::Options),
    /// How long further workers with torch take to their first result: interpreters and processes
    Starts(density::StartsOptions),
    /// Memory and starts of workers without any package: interpreters, sub-interpreters, processes, prefork children
    Bare(bare::Options),
    /// Interpreters beside processes on a GPU: the device's memory, throughput and right results
    Gpu(gpu::Options),
    /// Loads large weights: time beside stock, memory of many interpreters and of a second process
    Weights(weights::Options),
    /// Six pieces of work by interpreters, threads, processes and prefork children
    Workloads(workloads::Options),
    /// One packaged model called by 1, 2 and 4 threads: one interpreter, interpreters, processes, prefork, TorchScript
    Scaling(scaling::Options),
    /// CPU time of Python code with eager imports, with a profile of imports, and settled
    Kernels(kernels::Options),
    /// The time that a call takes longer in an interpreter that contains its crashes
    Guards(guards::Options),
    /// The processor's time of pairs of malloc and free in an interpreter, beside glibc's
    Malloc(malloc::Options),
    /// One piece of code that crashes, in an interpreter that contains its crashes
    Fault(fault::Options),
    /// Is one of Hydrozoa's contenders: another role starts it
    #[command(hide = true)]
    Contender { description: String },
}

fn main() -> ExitCode {
    match run(Arguments::parse().role) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(role: Role) -> anyhow::Result<()> {
    match role {
        Role::Run(options) => comparison::run(&options),
        Role::Soak(options) => soak::run(&options),
        Role::Race(options) => race::run(&options),
        Role::Stress(options) => stress::run(&options),
        Role::Control(options) => control::run(&options),
        Role::Density(options) => density::run(&options),
        Role::Starts(options) => density::run_starts(&options),
        Role::Bare(options) => bare::run(&options),
        Role::Gpu(options) => gpu::run(&options),
        Role::Weights(options) => weights::run(&options),
        Role::Workloads(options) => workloads::run(&options),
        Role::Scaling(options) => scaling::run(&options),
        Role::Kernels(options) => kernels::run(&options),
        Role::Guards(options) => guards::run(&options),
        Role::Malloc(options) => malloc::run(&options),
        Role::Fault(options) => fault::run(&options),
        Role::Contender { description } => ours::Ours::run(&description),
    }
}
