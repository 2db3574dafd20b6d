//! Compares interpreters with threads, processes and prefork, on the same work in the same run.

mod bare;
mod comparison;
mod control;
mod density;
mod field;
mod gpu;
mod kernels;
mod machine;
mod measured;
mod race;
mod report;
mod scaling;
mod serve;
mod soak;
mod stress;
mod weights;
mod workloads;

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread::ScopedJoinHandle;

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
    /// Is one contender: a pool that answers orders on standard input
    Serve(serve::Options),
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
    /// Is one contender of `density`: a pool that grows
    DensityPool(density::PoolOptions),
    /// How long further workers with torch take to their first result: interpreters and processes
    Starts(density::StartsOptions),
    /// What workers without any package take: interpreters, sub-interpreters, processes, prefork children
    Bare(bare::Options),
    /// Is one contender of `bare`: a pool that grows
    BarePool(bare::PoolOptions),
    /// Interpreters beside processes on a GPU: the device's memory, throughput and right results
    Gpu(gpu::Options),
    /// Loads large weights: time beside stock, memory of many interpreters and of a second process
    Weights(weights::Options),
    /// Six pieces of work by interpreters, threads, processes and prefork children
    Workloads(workloads::Options),
    /// Is one contender of `workloads`: a pool that answers orders
    WorkloadPool(workloads::PoolOptions),
    /// One packaged model called by 1, 2 and 4 threads: one interpreter, interpreters, processes, prefork, TorchScript
    Scaling(scaling::Options),
    /// Is one contender of `scaling`: a pool that answers orders
    ScalingPool(scaling::PoolOptions),
    /// CPU time of Python code with eager imports, with a profile of imports, and settled
    Kernels(kernels::Options),
}

/// What all roles need.
#[derive(clap::Args, Clone)]
struct Place {
    /// manifest.json of the exported models
    #[arg(long)]
    manifest: PathBuf,
    /// The virtual environment with torch
    #[arg(long)]
    venv: PathBuf,
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
        Role::Serve(options) => serve::run(&options),
        Role::Soak(options) => soak::run(&options),
        Role::Race(options) => race::run(&options),
        Role::Stress(options) => stress::run(&options),
        Role::Control(options) => control::run(&options),
        Role::Density(options) => density::run(&options),
        Role::DensityPool(options) => density::run_pool(&options),
        Role::Starts(options) => density::run_starts(&options),
        Role::Bare(options) => bare::run(&options),
        Role::BarePool(options) => bare::run_pool(&options),
        Role::Gpu(options) => gpu::run(&options),
        Role::Weights(options) => weights::run(&options),
        Role::Workloads(options) => workloads::run(&options),
        Role::WorkloadPool(options) => workloads::run_pool(&options),
        Role::Scaling(options) => scaling::run(&options),
        Role::ScalingPool(options) => scaling::run_pool(&options),
        Role::Kernels(options) => kernels::run(&options),
    }
}

/// Waits for threads and returns the first failure. The scope of the threads waits for the others.
fn join(threads: Vec<ScopedJoinHandle<'_, anyhow::Result<()>>>) -> anyhow::Result<()> {
    for thread in threads {
        match thread.join() {
            Ok(done) => done?,
            Err(_) => anyhow::bail!("a thread panicked"),
        }
    }
    Ok(())
}
