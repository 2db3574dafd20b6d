//! Packages that parts fetch into the system when they need them, once. No code of theirs runs for that.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::system::{MINOR, System};
use crate::tools::succeeds;
use crate::{debian, python};

/// Unpacks wheels of PyPI beside one another, without what they need, and returns the folder.
pub(super) fn packages(system: &System, name: &str, wheels: &[&str]) -> Result<String> {
    once(system, name, wheels, |folder| {
        succeeds(
            pip("install")?
                .args(["--no-compile", "--no-deps", "--target"])
                .arg(folder)
                .args(wheels),
        )
    })
}

/// Fetches wheels of PyPI as they are, without what they need, and returns the folder.
pub(super) fn wheels(system: &System, name: &str, wheels: &[&str]) -> Result<String> {
    once(system, name, wheels, |folder| {
        succeeds(pip("download")?.args(["--no-deps", "--dest"]).arg(folder).args(wheels))
    })
}

/// Unpacks packages of Debian into the system: their scripts would run what this machine cannot.
pub(super) fn debian(system: &System, name: &str, packages: &[&str]) -> Result<()> {
    once(system, name, packages, |_| {
        system.own(&format!(
            "cd /srv/{name} && apt-get -qq -o APT::Sandbox::User=root download {} && \
             for file in *.deb; do dpkg -x $file /; done",
            packages.join(" ")
        ))
    })
    .map(drop)
}

/// Fills a folder unless it was filled with the same.
fn once(
    system: &System,
    name: &str,
    what: &[&str],
    fill: impl FnOnce(&Path) -> Result<()>,
) -> Result<String> {
    let inside = format!("/srv/{name}");
    let folder = system.inside(&inside);
    let stamp = system.inside(&format!("{inside}.filled"));
    let what = what.join(" ");
    if fs::read_to_string(&stamp).is_ok_and(|with| with == what) {
        return Ok(inside);
    }
    println!("fetching {what}");
    debian::remove(&folder)?;
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    fill(&folder)?;
    fs::write(&stamp, what).with_context(|| format!("writing {}", stamp.display()))?;
    Ok(inside)
}

/// This machine's pip, for the other machine.
fn pip(task: &str) -> Result<Command> {
    let python = python::find(None)?;
    let mut pip = Command::new(&python.executable);
    pip.args(["-m", "pip", task, "--quiet", "--only-binary=:all:"]);
    pip.arg(format!("--python-version=3.{MINOR}"));
    for platform in ["manylinux_2_28_aarch64", "manylinux_2_27_aarch64", "manylinux2014_aarch64"] {
        pip.arg(format!("--platform={platform}"));
    }
    Ok(pip)
}
