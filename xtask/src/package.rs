//! `cargo xtask package`: whether the crates that are published work as a registry would have them.
//!
//! cargo packs each crate and compiles it from its archive alone, with the others' archives in the
//! place of the registry. That finds a file that lies outside of its package. The command that
//! comes of it then runs a Python, which finds a payload that was built from a wrong place.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::steps::Count;
use crate::workspace;

/// What each package has to have beside its sources.
const FILES: [&str; 4] = ["Cargo.toml", "README.md", "LICENSE-MIT", "LICENSE-APACHE"];

/// Packs, compiles and tries the crates.
pub fn run() -> Result<Count> {
    let target = workspace::root().join("target/packages");
    let packages = published()?;
    println!("packing {}", packages.join(", "));
    let status = workspace::cargo()
        .args(["publish", "--dry-run", "--quiet", "--workspace", "--allow-dirty", "--target-dir"])
        .arg(&target)
        .status()
        .context("starting cargo")?;
    ensure!(status.success(), "the packages do not compile from their archives");
    for package in &packages {
        let folder = target.join("package").join(package);
        for file in FILES {
            ensure!(folder.join(file).is_file(), "the package {package} lacks {file}");
        }
    }
    let output = Command::new(target.join("debug/hydrozoa"))
        .args(["python", "-c", "print(6 * 7)"])
        .output()
        .context("starting the command that the packages make")?;
    let printed = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success() && printed.trim() == "42",
        "the command that the packages make printed {printed:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    println!("{} packages compile, and their command runs Python", packages.len());
    Ok(Count { passed: packages.len() + 1, failed: 0 })
}

/// `name-version` of every crate of the workspace that may be published.
fn published() -> Result<Vec<String>> {
    let output = workspace::cargo()
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .output()
        .context("starting cargo")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("cargo lists the packages")?;
    // `publish = false` is an empty list of registries; without the key it is null.
    let names =
        packages.iter().filter(|package| package["publish"].is_null()).filter_map(|package| {
            Some(format!("{}-{}", package["name"].as_str()?, package["version"].as_str()?))
        });
    Ok(names.collect())
}
