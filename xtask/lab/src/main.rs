//! `cargo xtask lab NAME`: measurements, comparisons with others, and trials of others' code. Each laboratory does its own set-up
//! and keeps downloads outside the checkout. `cargo xtask test` runs short forms of some.

mod beside_glibc;
mod comparisons;
mod crashes;
mod cycles;
mod debugger;
mod density;
mod digest;
mod engines;
mod fuzz;
mod measurements;
mod models;
mod newcomer;
mod page;
mod plot;
mod protocols;
mod section;
mod serve;
mod server;
mod speed;
mod suites;
mod trials;
mod triton;
mod web;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use hydrozoa_linker_tests as linker;
use xtask_support::triton as backend;
use xtask_support::{
    beside_pyo3, cache, compare, debian, environment, libtest, lock, progress, python, pythons,
    steps, time_limit, tools, uv, venv, workspace,
};

#[derive(Parser)]
#[command(
    name = "cargo xtask lab",
    about = "Measurements, comparisons and long trials of Hydrozoa"
)]
struct Arguments {
    #[command(subcommand)]
    laboratory: Laboratory,
}

#[derive(Subcommand)]
enum Laboratory {
    /// Two torchvision models on 1, 2 and 4 interpreters beside threads and processes, every output checked bit for bit
    Demo(comparisons::Arguments),
    /// Ten minutes of two models on two interpreters; reports the slope of private memory
    Soak(comparisons::Arguments),
    /// The weights of BERT-base: time to the first output beside stock, memory of eight interpreters and two processes
    Weights(comparisons::Arguments),
    /// Sixteen threads that make, call and drop fifty movables at random for five minutes
    Race(comparisons::Arguments),
    /// Random operations of the public interface by eight threads for ten minutes, every answer checked
    ///
    /// Run it after a change to state shared by threads. It uses numpy; `--bare` uses nothing, and `--torch` tensors in
    /// each operation. A failure prints seed, thread and operation, and `--seed` repeats each thread's operations,
    /// though not their interleaving. A new operation is a function and a line of
    /// benches/src/bin/compare/stress/table.rs; an environment of a process is a line of
    /// tests/tests/environments/rows.rs. The suite runs the stress for 30 seconds, and all environments, for which it
    /// needs root.
    Stress(comparisons::Stress),
    /// Stops calls that loop, sleep, block in C or eat memory, and times it and what another interpreter notices
    Control(comparisons::Arguments),
    /// How many workers with torch serve a model in 1, 2 and 4 GiB: interpreters, prefork children, processes
    ///
    /// Contenders grow one by one until the kernel kills one or their latency is 1.2 times that without a limit. It
    /// needs root, for control groups, and takes more than an hour. `-- --limits 2 --only prefork,settled` selects.
    /// `--bare` measures workers without any package instead, beside CPython's sub-interpreters: half a minute, without
    /// root.
    Density(density::Arguments),
    /// Starts and ends interpreters many times, and plots the memory that they leave behind
    Cycles(cycles::Arguments),
    /// Crashes that interpreters contain: many, at random instructions, and those of released wheels
    ///
    /// Run `inject` after a change to the judgement, and all of them before a release.
    #[command(subcommand)]
    Crashes(crashes::Crashes),
    /// Six pieces of work by two interpreters, threads, processes and prefork children, every result compared bit for
    /// bit
    ///
    /// It takes about five minutes and prints the tables of docs/workloads.md. A new piece of work is a module in
    /// benches/python/workloads and a line in benches/src/bin/compare/workloads/work.rs. The suite runs the two that
    /// need numpy alone.
    Workloads(comparisons::Arguments),
    /// 1, 4 and 8 interpreters beside as many processes on a GPU: its memory, throughput, right results
    ///
    /// CI has no GPU. On a machine with one, run it with `--counts 1,4,8 --rounds 3` after a change to state shared by
    /// interpreters, and `cargo xtask test` with `HYDROZOA_TEST_GPU=1`. Where a machine has no Rust, carry `compare`
    /// (benches) and the test programs there; they need Python's shared library, torch and `HYDROZOA_TEST_VENV`.
    Gpu(comparisons::Arguments),
    /// The promises of speed: of calls beside PyO3, of the loader beside glibc's, of Python code with a profile of
    /// imports and settled beside eager imports, each in one run
    ///
    /// A broken promise is an error. `calls` runs calls of this crate and of PyO3 in one process, in turn; the program
    /// is benches/pyo3, outside the workspace because PyO3 has it link one libpython, and
    /// `target/pyo3/release/hydrozoa-pyo3 --venv DIR --only WORDS` repeats a row. `starts` compares the start of
    /// further interpreters with torch with that of processes. `kernels` fails at a mean below 0.97.
    Speed(speed::Arguments),
    /// The fifteen models of torch::deploy's paper: packaged, loaded in two interpreters at once, compared bit for bit
    Models(models::Arguments),
    /// A piece of work with each of the most used wheels, in three copies at once, beside plain python
    ///
    /// It downloads about 3 GB and takes half an hour. Run it before a release, and after a change to state shared by
    /// interpreters or to the loading of libraries: `--python 3.11 --table docs/libraries/tables.md`, and the same for 3.13.
    /// It keeps its results, so an interrupted run goes on where it stopped. A new row is a file in tests/wheels/work
    /// and a line of tests/wheels/wheels.txt.
    Wheels(trials::Arguments),
    /// More than fifty areas of torch, in four copies at once, beside plain python
    ///
    /// It installs the newest torch, or the release of `--torch 2.11`, and downloads about 4 GB. `--table
    /// docs/libraries/tables.md` writes the results between the marks of the run's options. Run it for a new release of torch,
    /// and after a change to state shared by interpreters. `--gpu` does the same on an NVIDIA GPU (tests/areas/gpu), in
    /// half a minute a row.
    Areas(trials::areas::Arguments),
    /// The test suites that wheels ship, test by test in plain python and in two copies at once
    ///
    /// `--numpy --scipy --sklearn --pandas --pyarrow --cpython --torch DIR` select suites. Tests that differ are run
    /// again. It takes hours; `--files TEXT` selects files, and a later run goes on where an interrupted one stopped.
    /// `--page` writes the figures to docs/faithful.md.
    Suites(suites::Arguments),
    /// Others' tests of HTTP, WebSockets, WSGI and ASGI on `hydrozoa run`, beside uvicorn, granian and others
    ///
    /// h2spec, Autobahn's test suite, wsgiref's validator, and the tests of Starlette, uvicorn, Django and asgiref: a test that passes
    /// on another server has to pass here, or tests/protocols/expected.txt says why not. It needs h2spec (a program of Go) and
    /// CPython 2.7, downloads 60 MB, and takes a quarter of an hour. `--only http1 h2spec` selects suites. Run it after a
    /// change to doors/web or to the server's HTTP.
    Protocols(protocols::Arguments),
    /// How gdb, lldb and perf see replicas
    Debugger(debugger::Arguments),
    /// The loader on untrusted input: parser, plan and relocation; nothing is executed
    Fuzz(fuzz::Arguments),
    /// The README's samples, followed from its top by a new user with Rust, a C++ compiler and a CPython: in an empty
    /// root
    ///
    /// It follows docs/start.md, too. debootstrap makes the root. It needs root's rights, downloads 3 GB, and takes
    /// about 20 CPU minutes the first time. `--fresh` compiles all of it again, and compares the CPU minutes with those
    /// that the README states. A sample that fails leaves the root, and `--from TEXT` goes on there. A new sample of
    /// the README is run without a change here; one of a new kind fails the suite. `cargo xtask test --full` has it as
    /// a step.
    Newcomer(newcomer::Arguments),
    /// The page of `hydrozoa serve` in Chromium, with models under load: its content, and pictures of it
    ///
    /// It installs Chromium where it may (Debian's package). The pictures are for you to look at: light and dark, large
    /// and small. The suite tests the page's content alone.
    Page(page::Arguments),
    /// The backend of Triton in a real server, beside its Python backend: answers, memory, time
    ///
    /// It installs Triton (55 MB), runs the models of serving/triton/tests by both backends, prints the table of
    /// docs/serving/triton.md and takes about five minutes. The suite runs the models that need no torch, by our backend.
    Triton(triton::Arguments),
    /// Serving systems with the same models and one client: throughput, latency, memory, overload; every answer checked
    ///
    /// hydrozoa, Triton with both backends, LitServe, MLServer and FastAPI. It installs them (300 MB beside torch) and
    /// takes some minutes. `--full` takes hours: it also reloads a package 1,000 times under load and sends 10,000
    /// malformed requests. The suite runs the overload for 20 seconds with a model that needs no torch.
    Serve(serve::Arguments),
    /// Servers of web applications with the same applications and one client: memory of a further worker, workers within a limit, speed
    ///
    /// hydrozoa run, gunicorn, uvicorn, Granian and Hypercorn serve seven applications; every body is compared with plain python's. It
    /// installs them (100 MB beside torch), and starts a PostgreSQL of its own, which must be installed. `memory` takes an hour and
    /// fails if a promise about a worker's memory is broken; let no other Python run meanwhile. `speed` wants a quiet machine.
    /// `--applications django --contenders hydrozoa,gunicorn` selects, and `--add` adds to an earlier run. A new application is a
    /// module in benches/python/web and a line in xtask/lab/src/web/application.rs.
    #[command(subcommand)]
    Web(web::Part),
    /// Runs joblib's loops, scikit-learn, Dask, Ray and SPDL on interpreters, by the Python package
    Engines(engines::Arguments),
}

fn main() -> ExitCode {
    match run(Arguments::parse().laboratory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(laboratory: Laboratory) -> anyhow::Result<()> {
    match laboratory {
        Laboratory::Demo(arguments) => arguments.demo(),
        Laboratory::Soak(arguments) => arguments.soak(),
        Laboratory::Weights(arguments) => arguments.weights(),
        Laboratory::Race(arguments) => arguments.role("race"),
        Laboratory::Stress(arguments) => arguments.run(),
        Laboratory::Control(arguments) => arguments.role("control"),
        Laboratory::Density(arguments) => density::run(&arguments),
        Laboratory::Cycles(arguments) => cycles::run(&arguments),
        Laboratory::Crashes(crashes) => crashes::run(&crashes),
        Laboratory::Workloads(arguments) => arguments.workloads(),
        Laboratory::Gpu(arguments) => arguments.role("gpu"),
        Laboratory::Speed(arguments) => speed::run(&arguments),
        Laboratory::Models(arguments) => models::run(&arguments),
        Laboratory::Wheels(arguments) => trials::wheels(&arguments),
        Laboratory::Areas(arguments) => trials::areas::run(&arguments),
        Laboratory::Suites(arguments) => suites::run(&arguments),
        Laboratory::Protocols(arguments) => protocols::run(&arguments),
        Laboratory::Debugger(arguments) => debugger::run(&arguments),
        Laboratory::Fuzz(arguments) => fuzz::run(&arguments),
        Laboratory::Newcomer(arguments) => newcomer::run(&arguments).map(drop),
        Laboratory::Page(arguments) => page::run(&arguments),
        Laboratory::Triton(arguments) => triton::run(&arguments),
        Laboratory::Serve(arguments) => serve::run(&arguments),
        Laboratory::Web(part) => web::run(&part),
        Laboratory::Engines(arguments) => engines::run(&arguments),
    }
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::CommandFactory;

    #[test]
    fn the_arguments_of_all_laboratories_fit_together() {
        Arguments::command().debug_assert();
    }
}
