//! `cargo xtask package`: whether the crates that are published work as a registry would have them.
//!
//! cargo packs each crate and compiles it from its archive alone, with the others' archives in the
//! place of the registry. That finds a file that lies outside of its package. The command that
//! comes of it then runs a Python, which finds a payload that was built from a wrong place.

use std::path::PathBuf;
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
    forget_earlier(&packages)?;
    // cargo takes what it has built of a registry's package for good, too.
    if target.exists() {
        std::fs::remove_dir_all(&target).context("removing what was built earlier")?;
    }
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

/// Removes what cargo has unpacked in an earlier run. It puts the archives of this workspace into a registry of their own,
/// takes an archive of the same version for the same, and unpacks it over the older files.
fn forget_earlier(packages: &[String]) -> Result<()> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let sources = home.context("neither CARGO_HOME nor HOME is set")?.join("registry/src");
    for registry in sources.read_dir().into_iter().flatten() {
        let registry = registry?;
        // A registry in a folder has no host, which its name would begin with.
        if !registry.file_name().as_encoded_bytes().starts_with(b"-") {
            continue;
        }
        for package in packages {
            let unpacked = registry.path().join(package);
            if unpacked.exists() {
                std::fs::remove_dir_all(&unpacked)
                    .with_context(|| format!("removing {}", unpacked.display()))?;
            }
        }
    }
    Ok(())
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
