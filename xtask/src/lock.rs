//! The lock files: every package with its version and the SHA-256 of its wheel, one file for each CPython minor version.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::python::{self, MINORS};
use crate::workspace;

/// What is asked for; the lock files add what these need.
const WANTED: [&str; 5] = ["torch==2.11.0", "torchvision==0.26.0", "numpy", "ninja", "setuptools"];

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

/// How many packages a lock file pins.
pub fn packages(text: &str) -> usize {
    text.lines().filter(|line| line.contains("==")).count()
}

/// The part of `pip install --report` that is read (pip's documentation, "Installation Report").
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
            .args(WANTED)
            .stderr(Stdio::inherit())
            .output()
            .context("starting pip")?;
        if !output.status.success() {
            bail!("pip could not resolve the packages for CPython 3.{minor}");
        }
        let report: Report =
            serde_json::from_slice(&output.stdout).context("reading pip's report")?;
        let path = workspace::root().join(format!("xtask/locks/cp3{minor}.txt"));
        std::fs::write(&path, render(minor, report)?)
            .with_context(|| format!("writing {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

fn render(minor: u8, report: Report) -> Result<String> {
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
    let mut text = format!(
        "# CPython 3.{minor}, x86-64, manylinux wheels. Written by `cargo xtask lock` for: {}.\n",
        WANTED.join(", ")
    );
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
}
