//! `cargo xtask semver`: checks that the published interfaces are compatible with the last release.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use semver::Version;

use crate::workspace;

/// The crates with an interface for users. `hydrozoa-payload` is only for `hydrozoa`, and the tool
/// does not read macros.
const CRATES: [&str; 7] = [
    "hydrozoa-loader",
    "hydrozoa",
    "hydrozoa-measure",
    "hydrozoa-models",
    "hydrozoa-seal",
    "hydrozoa-server",
    "hydrozoa-web",
];

/// Compares the interfaces with those of the last tag.
pub fn run() -> Result<()> {
    let tag = last_release()?.context(
        "no release has been tagged, so there is no interface to compare with; \
         a release is tagged with its version, such as v0.1.0",
    )?;
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

/// The newest release tag among the ancestors of this commit, if there is one.
pub fn last_release() -> Result<Option<String>> {
    let output = Command::new("git")
        .args(["describe", "--tags", "--abbrev=0", "--match", "v[0-9]*"])
        .current_dir(workspace::root())
        .output()
        .context("starting git")?;
    let tag = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    Ok((output.status.success() && !tag.is_empty()).then_some(tag))
}

/// Whether this tree's version says that users of the release `tag` may be broken: a new major version, or before 1.0 a
/// new minor one.
pub fn may_break(tag: &str) -> Result<bool> {
    let before = Version::parse(tag.trim_start_matches('v'))
        .with_context(|| format!("the tag {tag} is not a version"))?;
    Ok(breaks(&before, &Version::parse(env!("CARGO_PKG_VERSION"))?))
}

fn breaks(before: &Version, now: &Version) -> bool {
    match before.major {
        0 => (now.major, now.minor) > (0, before.minor),
        _ => now.major > before.major,
    }
}

#[cfg(test)]
mod tests {
    use super::breaks;
    use semver::Version;

    #[test]
    fn before_1_0_a_minor_version_may_break() {
        let version = |text| Version::parse(text).unwrap();
        assert!(breaks(&version("0.1.4"), &version("0.2.0")));
        assert!(!breaks(&version("0.1.4"), &version("0.1.5")));
        assert!(breaks(&version("0.9.0"), &version("1.0.0")));
        assert!(!breaks(&version("1.0.0"), &version("1.1.0")));
    }
}
