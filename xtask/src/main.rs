//! `cargo xtask`: the tasks around the crates, for a person or a CI machine.
//!
//! `demo` and `test` do all of their set-up themselves ([`environment`]). They keep downloads outside the checkout.

mod beside_pyo3;
mod cache;
mod capi;
mod cycles;
mod debugger;
mod demo;
mod density;
mod digest;
mod engines;
mod environment;
mod family;
mod fuzz;
mod gpu;
mod interface;
mod large;
mod libtest;
mod limited;
mod linked;
mod lock;
mod measurements;
mod models;
mod newcomer;
mod package;
mod page;
mod plot;
mod programs;
mod python;
mod pythons;
mod quick;
mod section;
mod semver;
mod serve;
mod soak;
mod speed;
mod suite;
mod suites;
mod tools;
mod trials;
mod triton;
mod venv;
mod wheel;
mod workloads;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use hydrozoa_linker_tests as linker;
use xtask_support::{progress, steps, workspace};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Build, demo and test tasks of Hydrozoa")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Two torchvision models on 1, 2 and 4 interpreters beside threads and processes, every output checked bit for bit
    Demo(demo::Arguments),
    /// Everything: formatting, lints, unit, integration and conformance tests, and the demo in a short form
    Test(suite::Arguments),
    /// Ten minutes of two models on two interpreters; reports the slope of private memory
    Soak(soak::Arguments),
    /// The weights of BERT-base: time to the first output beside stock, memory of eight interpreters and two processes
    Weights(large::Weights),
    /// Sixteen threads that make, call and drop fifty movables at random for five minutes
    Race(large::Race),
    /// Random operations of the public interface by eight threads for ten minutes, every answer checked
    Stress(large::Stress),
    /// Stops calls that loop, sleep, block in C or eat memory, and times it and what another interpreter notices
    Control(large::Control),
    /// How many workers with torch serve a model in 1, 2 and 4 GiB: interpreters, prefork children, processes
    Density(density::Arguments),
    /// Starts and ends interpreters many times, and plots what they leave
    Cycles(cycles::Arguments),
    /// Six pieces of work by two interpreters, threads, processes and prefork children, every result compared bit for bit
    Workloads(workloads::Arguments),
    /// 1, 4 and 8 interpreters beside as many processes on a GPU: its memory, throughput, right results
    Gpu(gpu::Arguments),
    /// What is promised of speed: of calls beside PyO3, of the loader beside glibc's, of Python code with a profile of imports and
    /// settled beside eager imports, each in one run
    Speed(speed::Arguments),
    /// The fifteen models of torch::deploy's paper: packaged, loaded in two interpreters at once, compared bit for bit
    Models(models::Arguments),
    /// A piece of work with each of the most used wheels, in three copies at once, beside plain python
    Wheels(trials::Arguments),
    /// More than fifty areas of torch, in four copies at once, beside plain python
    Areas(trials::areas::Arguments),
    /// Test suites that wheels have with them, test by test in plain python and in two copies at once
    Suites(suites::Arguments),
    /// Only the set-up: the virtual environment that the other tasks use
    Setup(environment::Arguments),
    /// The loader beside glibc's, on real files
    Linker(linker::Arguments),
    /// What gdb, lldb and perf see of replicas
    Debugger(debugger::Arguments),
    /// The loader on untrusted input: parser, plan and relocation; nothing is executed
    Fuzz(fuzz::Arguments),
    /// Whether the crates that are published compile from their archives alone, and run
    Package,
    /// The README's samples, followed from its top by a new user with Rust, a C++ compiler and a CPython: in an empty root
    Newcomer(newcomer::Arguments),
    /// Whether the public interfaces are those of docs/interface
    Interface(interface::Arguments),
    /// Whether the C header is what the sources of capi/ say
    Header(capi::header::Arguments),
    /// Builds the C and C++ interface and installs it with its pkg-config file
    Install(capi::install::Arguments),
    /// Builds the Python package as a wheel; with `--test` tries it on each CPython of the machine
    Wheel(wheel::Arguments),
    /// The backend of Triton in a real server, beside its Python backend: answers, memory, time; with `--install` only installs it
    Triton(triton::Arguments),
    /// The page of `hydrozoa serve` in Chromium, with models under load: what it shows, and pictures of it
    Page(page::Arguments),
    /// Serving systems with the same models and one client: throughput, latency, memory, overload; every answer checked
    Serve(serve::Arguments),
    /// Runs joblib's loops, scikit-learn, Dask, Ray and SPDL on interpreters, by the Python package
    Engines(engines::Arguments),
    /// Whether the published interfaces still serve the users of the last release
    Semver,
    /// Resolves the pinned packages again and rewrites xtask/locks
    Lock(lock::Arguments),
}

fn main() -> ExitCode {
    match run(Arguments::parse().task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(task: Task) -> anyhow::Result<()> {
    match task {
        Task::Demo(arguments) => demo::run(&arguments),
        Task::Test(arguments) => suite::run(&arguments),
        Task::Soak(arguments) => soak::run(&arguments),
        Task::Page(arguments) => page::run(&arguments),
        Task::Weights(arguments) => large::weights(&arguments),
        Task::Race(arguments) => large::race(&arguments),
        Task::Stress(arguments) => large::stress(&arguments),
        Task::Control(arguments) => large::control(&arguments),
        Task::Density(arguments) => density::run(&arguments),
        Task::Cycles(arguments) => cycles::run(&arguments),
        Task::Workloads(arguments) => workloads::run(&arguments),
        Task::Gpu(arguments) => gpu::run(&arguments),
        Task::Speed(arguments) => speed::run(&arguments),
        Task::Models(arguments) => models::run(&arguments),
        Task::Wheels(arguments) => trials::wheels(&arguments),
        Task::Areas(arguments) => trials::areas::run(&arguments),
        Task::Suites(arguments) => suites::run(&arguments),
        Task::Setup(arguments) => {
            let environment = environment::Environment::prepare(&arguments)?;
            println!("{}", environment.root().display());
            Ok(())
        }
        Task::Linker(arguments) => linker::run(&arguments),
        Task::Debugger(arguments) => debugger::run(&arguments),
        Task::Fuzz(arguments) => fuzz::run(&arguments),
        Task::Package => package::run().map(drop),
        Task::Newcomer(arguments) => newcomer::run(&arguments).map(drop),
        Task::Interface(arguments) => interface::run(&arguments),
        Task::Header(arguments) => capi::header::run(&arguments),
        Task::Install(arguments) => capi::install::run(&arguments),
        Task::Wheel(arguments) => wheel::run(&arguments),
        Task::Triton(arguments) => triton::run(&arguments),
        Task::Serve(arguments) => serve::run(&arguments),
        Task::Engines(arguments) => engines::run(&arguments),
        Task::Semver => semver::run(),
        Task::Lock(arguments) => lock::run(&arguments),
    }
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_of_all_tasks_fit_together() {
        Arguments::command().debug_assert();
    }
}
