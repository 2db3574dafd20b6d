//! The lock files: every package with its version and the SHA-256 of its wheel, one file for each CPython minor version.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::python::{self, MINORS};
use crate::workspace;

/// The required packages. The lock files add the packages that these depend on.
const WANTED: [&str; 5] = ["torch==2.11.0", "torchvision==0.26.0", "numpy", "ninja", "setuptools"];

/// The further packages that the models of `cargo xtask models` require. transformers is the last release that
/// supports CPython 3.10.
const MODELS: [&str; 4] =
    ["torchaudio==2.11.0", "transformers==5.20.2", "demucs==4.1.0", "torch-struct==0.5"];

/// The lock file of CPython 3.`minor`, compiled into this program.
pub fn text(minor: u8) -> &'static str {
    match minor {
        10 => include_str!("../locks/cp310.txt"),
        11 => include_str!("../locks/cp311.txt"),
        12 => include_str!("../locks/cp312.txt"),
        13 => include_str!("../locks/cp313.txt"),
        _ => unreachable!("MINORS lists the versions that have a lock file"),
    }
}

/// The lock file of the models' own packages for CPython 3.`minor`, without those of [`text`].
pub fn models(minor: u8) -> &'static str {
    match minor {
        10 => include_str!("../locks/models-cp310.txt"),
        11 => include_str!("../locks/models-cp311.txt"),
        12 => include_str!("../locks/models-cp312.txt"),
        13 => include_str!("../locks/models-cp313.txt"),
        _ => unreachable!("MINORS lists the versions that have a lock file"),
    }
}

/// The number of packages that a lock file pins.
pub fn packages(text: &str) -> usize {
    text.lines().filter(|line| line.contains("==")).count()
}

/// The part of `pip install --report` that the task reads (pip's documentation, "Installation Report").
#[derive(Deserialize)]
struct Report {
    install: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    metadata: Metadata,
    download_info: Download,
}

#[derive(Deserialize)]
struct Metadata {
    name: String,
    version: String,
}

#[derive(Deserialize)]
struct Download {
    archive_info: Archive,
}

#[derive(Deserialize)]
struct Archive {
    hashes: std::collections::BTreeMap<String, String>,
}

/// Rewrites `xtask/locks`; needs every CPython of [`MINORS`].
pub fn run() -> Result<()> {
    for minor in MINORS {
        let python = python::find(Some(minor))?;
        let base = resolve(&python, &WANTED.map(str::to_owned))?;
        write(minor, &format!("cp3{minor}.txt"), &base, &WANTED)?;
        // The models' packages must be compatible with the pinned ones; their lock file contains the additional
        // packages.
        let pinned = base.lines().filter_map(|line| Some(line.split_once(' ')?.0.to_owned()));
        let wanted: Vec<String> = pinned.clone().chain(MODELS.map(str::to_owned)).collect();
        let pinned: Vec<String> = pinned.collect();
        let added: String = resolve(&python, &wanted)?
            .lines()
            .filter(|line| !pinned.iter().any(|pin| line.starts_with(&format!("{pin} "))))
            .map(|line| format!("{line}\n"))
            .collect();
        write(minor, &format!("models-cp3{minor}.txt"), &added, &MODELS)?;
    }
    Ok(())
}

/// The lines of a lock file after its head.
fn resolve(python: &python::Python, wanted: &[String]) -> Result<String> {
    let output = Command::new(&python.executable)
        .args([
            "-m",
            "pip",
            "install",
            "--dry-run",
            "--ignore-installed",
            "--quiet",
            "--only-binary=:all:",
            "--report",
            "-",
        ])
        .args(wanted)
        .stderr(Stdio::inherit())
        .output()
        .context("starting pip")?;
    if !output.status.success() {
        bail!("pip could not resolve the packages for CPython 3.{}", python.minor);
    }
    render(serde_json::from_slice(&output.stdout).context("reading pip's report")?)
}

fn write(minor: u8, file: &str, lines: &str, wanted: &[&str]) -> Result<()> {
    let path = workspace::root().join("xtask/locks").join(file);
    let text = format!(
        "# CPython 3.{minor}, x86-64, manylinux wheels. Written by `cargo xtask lock` for: {}.\n{lines}",
        wanted.join(", ")
    );
    std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}

fn render(report: Report) -> Result<String> {
    let mut lines = Vec::new();
    for Item { metadata: Metadata { name, version }, download_info } in report.install {
        let hash = download_info
            .archive_info
            .hashes
            .get("sha256")
            .with_context(|| format!("{name}: no SHA-256"))?;
        // Names are compared in their normal form (PEP 503).
        lines.push(format!(
            "{}=={version} --hash=sha256:{hash}",
            name.to_lowercase().replace(['_', '.'], "-")
        ));
    }
    lines.sort();
    let mut text = String::new();
    for line in lines {
        writeln!(text, "{line}")?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lock_pins_torch_and_hashes_each_package() {
        for minor in MINORS {
            let text = text(minor);
            assert!(text.contains("\ntorch==2.11.0 --hash=sha256:"), "3.{minor}");
            for line in text.lines().skip(1) {
                let (name, hash) = line.split_once(" --hash=sha256:").expect(line);
                assert!(name.contains("==") && hash.len() == 64, "{line}");
            }
            assert!(packages(text) > 20);
        }
    }

    #[test]
    fn the_models_packages_are_hashed_and_leave_the_pinned_ones_alone() {
        for minor in MINORS {
            let own = models(minor);
            let base = text(minor);
            for wanted in MODELS {
                assert!(own.contains(&format!("\n{wanted} --hash=sha256:")), "3.{minor}: {wanted}");
            }
            for line in own.lines().skip(1) {
                let (pin, hash) = line.split_once(" --hash=sha256:").expect(line);
                let (name, _) = pin.split_once("==").expect(line);
                assert!(hash.len() == 64, "{line}");
                assert!(
                    !base.contains(&format!("\n{name}==")),
                    "3.{minor}: {name} is pinned twice"
                );
            }
        }
    }
}
