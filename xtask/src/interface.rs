//! `cargo xtask interface`: the public interfaces as lists, one line for each item.
//!
//! The lists are in docs/interface. A change of an interface is a change of its list, so a reader of the change sees it,
//! and nobody makes one unknowingly. Before 1.0 a release may break users only with a new minor version
//! (CONTRIBUTING.md), so a line that the last release had and this tree has not needs one.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::semver;
use crate::steps::Count;
use crate::workspace;

/// The crates with an interface for users. The runtime's has all features but `tch`, which needs libtorch to compile
/// (tests/Cargo.toml).
const CRATES: [&str; 7] = [
    "hydrozoa",
    "hydrozoa-loader",
    "hydrozoa-measure",
    "hydrozoa-models",
    "hydrozoa-seal",
    "hydrozoa-server",
    "hydrozoa-web",
];

/// Options of `cargo xtask interface`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Write the lists instead of comparing with them
    #[arg(long)]
    write: bool,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    match arguments.write {
        true => {
            describe()?;
            for name in CRATES {
                let list = list(name)?;
                fs::create_dir_all(workspace::root().join("docs/interface"))?;
                fs::write(file(name), list)?;
                println!("{} is written", file(name).display());
            }
            Ok(())
        }
        false => check().map(drop),
    }
}

/// Compares the interfaces with their lists, and the lists with those of the last release. A warning of rustdoc's is an error.
pub fn check() -> Result<Count> {
    describe()?;
    let mut differ = Vec::new();
    for name in CRATES {
        let kept = fs::read_to_string(file(name)).unwrap_or_default();
        let list = list(name)?;
        let lines = changes(&kept, &list);
        if !lines.is_empty() {
            println!("{name}: its list has '-', its source has '+'\n{}", lines.join("\n"));
            differ.push(name);
        }
    }
    ensure!(
        differ.is_empty(),
        "the public interface of {} is not that of docs/interface: `cargo xtask interface --write` writes the lists, and a \
         reader of the change sees what users get",
        differ.join(", ")
    );
    match semver::last_release()? {
        Some(tag) => since(&tag)?,
        None => println!("no release has been tagged: there is nothing to be compatible with"),
    }
    Ok(Count { passed: CRATES.len(), failed: 0 })
}

/// Refuses a break of the interfaces of a release, unless the version is raised enough.
fn since(tag: &str) -> Result<()> {
    let mut lost = Vec::new();
    for name in CRATES {
        let path = format!("{tag}:docs/interface/{name}.txt");
        let output = Command::new("git")
            .args(["show", &path])
            .current_dir(workspace::root())
            .output()
            .context("starting git")?;
        ensure!(output.status.success(), "git has no {path}");
        let before = String::from_utf8(output.stdout)?;
        let now = fs::read_to_string(file(name))?;
        lost.extend(changes(&before, &now).into_iter().filter(|line| line.starts_with('-')));
    }
    if !lost.is_empty() && !semver::may_break(tag)? {
        bail!(
            "{tag} had these, and the version does not say that they changed:\n{}",
            lost.join("\n")
        );
    }
    println!("{} items of {tag} are gone or different; the version allows that", lost.len());
    Ok(())
}

/// The lines that only one of two lists has.
fn changes(before: &str, after: &str) -> Vec<String> {
    let (old, new): (BTreeSet<_>, BTreeSet<_>) =
        (before.lines().collect(), after.lines().collect());
    let gone = old.difference(&new).map(|line| format!("-{line}"));
    gone.chain(new.difference(&old).map(|line| format!("+{line}"))).collect()
}

fn file(name: &str) -> PathBuf {
    workspace::root().join(format!("docs/interface/{name}.txt"))
}

/// Lets rustdoc describe the workspace. One command, so that no dependency is compiled with a second set of features.
fn describe() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut command = workspace::cargo();
    command.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOC", rustdoc(folder.path())?);
    command.env("RUSTDOCFLAGS", "-Dwarnings -Zunstable-options --output-format json");
    let status = command.status().context("starting cargo")?;
    ensure!(status.success(), "rustdoc cannot describe the workspace");
    Ok(())
}

/// The items that a user of the crate may name, in the order of the modules.
fn list(name: &str) -> Result<String> {
    let described = workspace::target()?.join(format!("doc/{}.json", name.replace('-', "_")));
    let interface = public_api::Builder::from_rustdoc_json(described)
        .omit_blanket_impls(true)
        .omit_auto_derived_impls(true)
        .omit_auto_trait_impls(true)
        .build()
        .with_context(|| format!("reading rustdoc's description of {name}"))?;
    let mut lines: Vec<String> = interface.items().map(ToString::to_string).collect();
    lines.dedup();
    Ok(lines.join("\n") + "\n")
}

/// A program that is rustdoc with descriptions as JSON, which are not stable yet. Nothing else is compiled with unstable
/// features, as the environment variable would do for all crates.
fn rustdoc(folder: &Path) -> Result<PathBuf> {
    let path = folder.join("rustdoc");
    fs::write(&path, "#!/bin/sh\nRUSTC_BOOTSTRAP=1 exec rustdoc \"$@\"\n")?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::changes;

    #[test]
    fn lines_of_one_list_alone_are_changes() {
        assert_eq!(changes("pub fn a()\npub fn b()\n", "pub fn b()\npub fn a()\n"), [""; 0]);
        assert_eq!(changes("pub fn a()\n", "pub fn a(u8)\n"), ["-pub fn a()", "+pub fn a(u8)"]);
    }
}
