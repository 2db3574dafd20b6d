//! `cargo xtask`: the tasks around the crates, for a person or a CI machine.
//!
//! `test` does all of its set-up itself ([`environment`]). It keeps downloads outside the checkout. Another program measures,
//! compares and tries; `lab` builds and runs it.

mod aarch64;
mod backend;
mod capi;
mod dist;
mod interface;
mod lab;
mod package;
mod programs;
mod quick;
mod semver;
mod suite;
mod wheel;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use hydrozoa_linker_tests as linker;
use xtask_support::{
    beside_pyo3, cache, compare, debian, environment, libtest, lock, python, pythons, steps, tools,
    triton, uv, venv, workspace,
};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Build, demo and test tasks of Hydrozoa")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Everything: formatting, lints, unit, integration and conformance tests, and the demo in a short form
    ///
    /// It is all that CI runs, and takes 35 minutes on two cores; `--quick` takes five, `--full` also follows the
    /// README in an empty root. For tests that pass it prints only the result, and failures in full, again at the end.
    /// Its first line says which versions of CPython it tries and which the machine lacks:
    /// `PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install 3.N` installs one.
    ///
    /// Variables: `HYDROZOA_TEST_GPU=1` has the tests of devices use a GPU. `HYDROZOA_TEST_SEED` is the seed of random
    /// tests. Longer forms of single tests are in CONTRIBUTING.md.
    Test(suite::Arguments),
    /// A laboratory, which measures, compares with others, or tries others' code: `cargo xtask lab --help` lists them
    #[command(disable_help_flag = true)]
    Lab {
        /// The laboratory and its options
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<OsString>,
    },
    /// Only the set-up: the virtual environment that the other tasks use
    Setup(environment::Arguments),
    /// The loader beside glibc's: cases, random programs, glibc's own tests, the relocated words of wheels
    ///
    /// `--only NAME` selects cases, `--random N` draws programs, `--shim DIR` runs glibc's tests from its sources,
    /// `--differential` compares relocated words of real wheels (docs/loader-differential.md).
    Linker(linker::Arguments),
    /// Whether the crates that are published compile from their archives alone, and run
    ///
    /// Packs them, compiles each from its archive alone and runs the command that results. A crate outside of the
    /// checkout then runs the README's first sample, builds the documentation as docs.rs does, and is refused with
    /// words for a static glibc. A crate that is not for users has `publish = false`.
    Package,
    /// Whether the public interfaces are those of docs/interface
    ///
    /// Compares the lists with the source, and with the last release. `--write` writes them: a commit that changes an
    /// interface changes its list.
    Interface(interface::Arguments),
    /// Whether the C header agrees with the sources of doors/c/; with `--write` makes it
    Header(capi::header::Arguments),
    /// Builds the C and C++ interface and installs it with its pkg-config file
    Install(capi::install::Arguments),
    /// Builds the Python package as a wheel; with `--test` tries it on each CPython of the machine
    ///
    /// `--test` runs CPython's own tests of executors, too.
    Wheel(wheel::Arguments),
    /// Builds the backend of Triton and installs it in a folder of Triton's backends
    Backend(backend::Arguments),
    /// Makes the files of a release; with `--test` tries them in an empty Debian
    ///
    /// A wheel, an archive with the command, the libraries, the headers and the backend of Triton, the crates, a bill of materials,
    /// changes and digests. The files are for glibc 2.28 and newer. Two runs on one commit make the same bytes.
    Dist(dist::Arguments),
    /// The port to AArch64 under an emulator: builds the crates, and runs the loader's tests, the linker's cases and numpy in three copies
    ///
    /// As root, on Linux 6.7 and newer: it makes a Debian with a cross compiler, qemu-user and CPython and numpy for AArch64 in the cache (4 GB).
    /// It says which tests the emulator cannot run. `--only NAME` selects steps: build, loader, linker, copies. `--shell LINE` runs a line there.
    Aarch64(aarch64::Arguments),
    /// Whether the published interfaces still serve the users of the last release
    Semver,
    /// Resolves the pinned packages again and rewrites xtask/locks; `--python 3.14` those of one version
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
        Task::Test(arguments) => suite::run(&arguments),
        Task::Setup(arguments) => {
            let environment = environment::Environment::prepare(&arguments)?;
            println!("{}", environment.root().display());
            Ok(())
        }
        Task::Lab { words } => lab::run(&words),
        Task::Linker(arguments) => linker::run(&arguments),
        Task::Package => package::run().map(drop),
        Task::Interface(arguments) => interface::run(&arguments),
        Task::Header(arguments) => capi::header::run(&arguments),
        Task::Install(arguments) => capi::install::run(&arguments),
        Task::Wheel(arguments) => wheel::run(&arguments),
        Task::Backend(arguments) => backend::run(&arguments),
        Task::Dist(arguments) => dist::run(&arguments),
        Task::Aarch64(arguments) => aarch64::run(&arguments),
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
