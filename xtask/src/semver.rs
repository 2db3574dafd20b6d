//! `cargo xtask semver`: checks that the published interfaces are compatible with the last release.

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::workspace;

/// The crates with an interface for users. `hydrozoa-payload` is only for `hydrozoa`.
const CRATES: [&str; 3] = ["hydrozoa-loader", "hydrozoa", "hydrozoa-measure"];

/// Compares the interfaces with those of the last tag.
pub fn run() -> Result<()> {
    let tag = last_tag()?;
    let tool = workspace::cargo().args(["semver-checks", "--version"]).output();
    ensure!(
        tool.is_ok_and(|output| output.status.success()),
        "cargo-semver-checks is not installed; `cargo install --locked cargo-semver-checks` builds it"
    );
    println!("comparing with {tag}");
    let mut command = workspace::cargo();
    command.args(["semver-checks", "check-release", "--baseline-rev", &tag]);
    for name in CRATES {
        command.args(["--package", name]);
    }
    let status = command.status().context("starting cargo semver-checks")?;
    ensure!(
        status.success(),
        "the interfaces differ from {tag} (see above): raise the version as CONTRIBUTING.md says, or undo the break"
    );
    Ok(())
}

/// The newest release tag among the ancestors of this commit.
fn last_tag() -> Result<String> {
    let output = Command::new("git")
        .args(["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"])
        .current_dir(workspace::root())
        .output()
        .context("starting git")?;
    let tag = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if !output.status.success() || tag.is_empty() {
        bail!(
            "no release has been tagged, so there is no interface to compare with; \
             a release is tagged with its version, such as v0.1.0"
        );
    }
    Ok(tag)
}
