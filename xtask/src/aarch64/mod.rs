//! `cargo xtask aarch64`: the port to AArch64 on this machine, by an emulator of programs (qemu-user).
//!
//! | file | is |
//! |---|---|
//! | `system` | a Debian with a cross compiler, the emulator, and CPython and numpy for AArch64 |
//! | `untried` | the tests that the emulator cannot run, with reasons |
//! | `hidden` | the emulator's own thread, hidden from programs |
//! | `fetched` | packages that parts fetch into it |
//! | `differential` | every relocated word of ten wheels, beside glibc's loader |
//! | `copies` | numpy in three copies beside plain python |
//! | `exceptions` | pandas and exceptions of C++ likewise |
//! | `torch` | a model of torchvision's likewise |
//! | `suites` | tests of others in copy 2 of 3 beside plain python |
//! | `cpython`, `numpy` | the suites |
//! | `crashes` | crashes that are contained |
//! | `release` | the files of `cargo xtask dist --machine aarch64` |
//!
//! The emulator runs one program for another machine, and passes its requests on to this machine's kernel. So the order of memory
//! accesses is this machine's, and a page has its size. A machine of its own shows what is left.

mod copies;
mod cpython;
mod crashes;
mod differential;
mod exceptions;
mod fetched;
mod hidden;
mod numpy;
pub mod release;
mod suites;
mod system;
mod torch;
mod untried;

use std::fs;

use anyhow::{Context, Result, ensure};

use self::system::System;
use crate::debian;
use crate::steps::{Count, Outcome, Steps};
use crate::workspace;

/// Options of `cargo xtask aarch64`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Only the steps whose names contain one of these
    #[arg(long, value_name = "NAME", num_args = 1..)]
    only: Vec<String>,
    /// Run this line of a shell in the system instead, in the folder of the sources
    #[arg(long, value_name = "LINE", conflicts_with = "only")]
    shell: Option<String>,
}

/// The target's name.
const TARGET: &str = "aarch64-unknown-linux-gnu";

/// The packages that are compiled: all that a release has, and the task itself, which runs the linker's cases there.
const PACKAGES: [&str; 6] =
    ["hydrozoa-loader", "hydrozoa-shim", "hydrozoa", "hydrozoa-cli", "hydrozoa-capi", "xtask"];

/// Runs the task.
///
/// # Errors
///
/// The machine cannot make or enter the system, or a step fails.
pub fn run(arguments: &Arguments) -> Result<()> {
    debian::is_possible()?;
    debian::can_emulate()?;
    let system = System::prepare()?;
    if let Some(line) = &arguments.shell {
        return system.run(line);
    }
    let mut steps = Steps::default();
    let wanted = |name: &str| {
        arguments.only.is_empty() || arguments.only.iter().any(|only| name.contains(only.as_str()))
    };
    let mut count = 0;
    let mut step = |name: &str, action: &dyn Fn() -> Result<Outcome>| {
        if wanted(name) {
            steps.run(name, action);
            count += 1;
        }
    };
    step("build", &|| build(&system));
    step("loader", &|| loader(&system));
    step("linker", &|| linker(&system));
    step("differential", &|| differential::run(&system));
    step("copies", &|| copies::run(&system));
    step("exceptions", &|| exceptions::run(&system));
    step("torch", &|| torch::run(&system));
    step("cpython", &|| cpython::run(&system));
    step("numpy", &|| numpy::run(&system));
    step("crashes", &|| crashes::run(&system));
    step("release", &|| release::run(&system));
    ensure!(count > 0, "no step has such a name");
    ensure!(steps.summary(), "the port to AArch64 fails");
    Ok(())
}

fn build(system: &System) -> Result<Outcome> {
    let packages: Vec<String> = PACKAGES.iter().map(|name| format!("-p {name}")).collect();
    system.run(&format!("cargo build --target {TARGET} {}", packages.join(" ")))?;
    Ok(Count::one(true).into())
}

/// The loader's own tests.
fn loader(system: &System) -> Result<Outcome> {
    untried::tell(&untried::PROGRAMS);
    untried::tell(&untried::TESTS);
    let tried: Vec<String> = programs()?
        .into_iter()
        .filter(|name| untried::PROGRAMS.iter().all(|(untried, _)| untried != name))
        .map(|name| format!("--test {name}"))
        .collect();
    let skipped: Vec<String> =
        untried::TESTS.iter().map(|(name, _)| format!("--skip {name}")).collect();
    system.counted(&format!(
        "cargo test --target {TARGET} -p hydrozoa-loader --lib {} --no-fail-fast -- {}",
        tried.join(" "),
        skipped.join(" ")
    ))
}

/// The programs of tests that the loader has: each file of its folder, and each folder with a `main.rs`.
fn programs() -> Result<Vec<String>> {
    let folder = workspace::root().join("loader/tests");
    let mut names = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        let is_one =
            path.extension().is_some_and(|kind| kind == "rs") || path.join("main.rs").is_file();
        names.extend(
            path.file_stem().filter(|_| is_one).map(|name| name.to_string_lossy().into_owned()),
        );
    }
    names.sort();
    Ok(names)
}

/// The linker's cases, each with its first compiler and linker.
fn linker(system: &System) -> Result<Outcome> {
    untried::tell(&untried::CASES);
    // Many of them have such data as the emulator's own thread cannot be given.
    untried::tell(&[("random programs", untried::OWN_THREAD)]);
    let except = untried::CASES.map(|(name, _)| name).into_iter().chain(hidden::CASES);
    let except: Vec<&str> = except.collect();
    let xtask = format!("/target/{TARGET}/debug/xtask linker --quick");
    system.run(&format!("cargo build --target {TARGET} -p xtask"))?;
    system.run(&format!("{xtask} --except {}", except.join(" ")))?;
    // The compiler is a program of this machine. It says that it does not load what hides the thread.
    let begin = hidden::line(system)?;
    system.run(&format!("{begin}{xtask} --only {}", hidden::CASES.join(" ")))?;
    Ok(Count::one(true).into())
}
