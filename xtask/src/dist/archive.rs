//! The archive: a folder as `/usr/local` has it, with a folder of Triton's backends.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::build::Built;
use super::{Machine, VERSION};
use crate::tools::succeeds;
use crate::wheel::LAUNCHER;
use crate::{capi, triton, workspace};

/// Texts that lie at its top.
const TEXTS: [&str; 5] =
    ["README.md", "CHANGELOG.md", "SECURITY.md", "LICENSE-APACHE", "LICENSE-MIT"];

/// The name of the archive without its ending, and of the folder in it.
pub fn name(machine: Machine) -> String {
    format!("hydrozoa-{VERSION}-{}", machine.target())
}

/// Makes the archive in a folder.
pub fn make(built: &Built, out: &Path, since: u64) -> Result<()> {
    let folder = built.folder().join("archive");
    let name = name(built.machine());
    if folder.exists() {
        fs::remove_dir_all(&folder).context("removing an earlier archive")?;
    }
    let root = folder.join(&name);
    fs::create_dir_all(root.join("bin"))?;
    fs::copy(built.command(), root.join("bin/hydrozoa")).context("copying the command")?;
    let launcher = root.join("bin").join(LAUNCHER);
    fs::copy(built.launcher(), launcher).context("copying the launcher")?;
    let libraries =
        capi::install::Libraries { shared: &built.library(), archive: &built.static_library() };
    // pkg-config finds the prefix from the place of the file.
    capi::install::put_all(&libraries, &root, "${pcfiledir}/../..")?;
    triton::install(&built.backend(), &root.join("backends"), false)?;
    for text in TEXTS {
        fs::copy(workspace::root().join(text), root.join(text))
            .with_context(|| format!("copying {text}"))?;
    }
    let archive = out.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    tar.args([
        "--mode=u=rwX,go=rX",
        &format!("--mtime=@{since}"),
        "--use-compress-program=gzip -9n",
    ]);
    succeeds(tar.arg("-C").arg(&folder).arg("-cf").arg(&archive).arg(&name))
}
