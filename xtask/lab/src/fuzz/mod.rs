//! `cargo xtask lab fuzz`: the loader's fuzz targets for a bounded time, seeded from the linker cases.
//!
//! All of its files lie in `target/fuzz`: the seeds, the inputs that failed, and a corpus for each target. Later runs
//! start from that corpus.

mod readelf;
mod run;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use sha2::{Digest, Sha256};

use crate::linker::cases;
use crate::workspace;

/// Options of `cargo xtask lab fuzz`.
#[derive(clap::Args)]
pub struct Arguments {
    /// How long, in minutes, each target runs
    #[arg(long, value_name = "N", default_value_t = 2.0)]
    minutes: f64,
    /// Only this target
    #[arg(long, value_enum, num_args = 1..)]
    target: Vec<Target>,
}

/// A fuzz target of `loader/fuzz`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Target {
    /// Any bytes are an image or an error
    Parse,
    /// Every symbol that relocations name is bound, or the load fails
    Plan,
    /// Relocation writes only the values that the file asks for, and only where the file may write
    Relocate,
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Target::Parse => "parse",
            Target::Plan => "plan",
            Target::Relocate => "relocate",
        }
    }
}

/// Larger inputs find nothing that smaller ones do not find, and take longer.
const GREATEST_INPUT: u64 = 64 * 1024;

/// Builds and runs the targets. Returns an error if an input failed or if readelf reads one differently.
pub fn run(arguments: &Arguments) -> Result<()> {
    ensure!(
        Command::new("cargo-fuzz").arg("--version").output().is_ok(),
        "cargo-fuzz is not installed; `cargo install cargo-fuzz` builds it"
    );
    let targets = match arguments.target.as_slice() {
        [] => Target::value_variants(),
        chosen => chosen,
    };
    let root = workspace::root().join("target/fuzz");
    let binaries = build(&root)?;
    println!("building the linker cases for seeds");
    let seeds = seeds(&root)?;
    let mut reports = Vec::new();
    for &target in targets {
        let place = run::Folders {
            binary: binaries.join(target.name()),
            corpus: root.join("corpus").join(target.name()),
            seeds: seeds.clone(),
            failures: root.join("failures").join(target.name()),
        };
        reports.push((target, run::run(target.name(), &place, arguments.minutes * 60.0)?));
    }
    println!("comparing with readelf");
    let readings = targets
        .iter()
        .map(|target| readelf::compare(&root.join("corpus").join(target.name())))
        .collect::<Result<Vec<_>>>()?;
    report(&reports, &readings)
}

/// Builds the targets and returns their folder.
///
/// The flags for the sanitizer and for its coverage are unstable, though the compiler of every channel has them.
/// RUSTC_BOOTSTRAP makes a stable compiler accept them.
fn build(root: &Path) -> Result<PathBuf> {
    let status = workspace::cargo()
        .args(["fuzz", "build", "--fuzz-dir", "loader/fuzz", "--target-dir"])
        .arg(root)
        .env("RUSTC_BOOTSTRAP", "1")
        .status()
        .context("starting cargo fuzz")?;
    ensure!(status.success(), "the fuzz targets do not build");
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    Ok(root.join(triple).join("release"))
}

/// Puts every small library of the linker cases into one folder, named by its content.
fn seeds(root: &Path) -> Result<PathBuf> {
    let folder = root.join("seeds");
    std::fs::create_dir_all(&folder)?;
    for library in cases::libraries()? {
        if std::fs::metadata(&library)?.len() > GREATEST_INPUT {
            continue;
        }
        let bytes = std::fs::read(&library)?;
        let hash: String =
            Sha256::digest(&bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        std::fs::write(folder.join(hash), bytes)?;
    }
    Ok(folder)
}

fn report(reports: &[(Target, run::Report)], readings: &[readelf::Readings]) -> Result<()> {
    println!(
        "\n{:<10} {:>8} {:>11} {:>9} {:>8} {:>10} {:>9} {:>9} {:>8}",
        "target",
        "seconds",
        "executions",
        "coverage",
        "inputs",
        "bytes",
        "accepted",
        "readelf",
        "failed"
    );
    let mut failures: Vec<String> = Vec::new();
    for ((target, report), readings) in reports.iter().zip(readings) {
        println!(
            "{:<10} {:>8.0} {:>11} {:>9} {:>8} {:>10} {:>9} {:>9} {:>8}",
            target.name(),
            report.seconds,
            report.executions,
            report.coverage,
            report.inputs,
            report.bytes,
            readings.accepted,
            readings.compared,
            report.failures.len(),
        );
        failures.extend(report.failures.iter().map(|input| {
            format!("{} fails; the log is beside it: {}", input.display(), report.log.display())
        }));
        failures.extend(readings.differences.iter().cloned());
    }
    println!(
        "(coverage: edges of the target and the loader; inputs, bytes: the minimised corpus; accepted: those \
         of it that are images, readelf: those that readelf reads without a warning, alike)"
    );
    if !failures.is_empty() {
        bail!("{} failures:\n{}", failures.len(), failures.join("\n"));
    }
    Ok(())
}
