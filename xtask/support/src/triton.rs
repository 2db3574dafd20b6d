//! The backend of Triton: its library, and folders of backends.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::workspace;

/// The backend's file.
pub const LIBRARY: &str = "libtriton_hydrozoa.so";

/// Builds the backend and returns its path.
pub fn build(release: bool) -> Result<PathBuf> {
    let mut command = workspace::cargo();
    command.args(["build", "--quiet", "--lib", "--package", "hydrozoa-triton"]);
    if release {
        command.arg("--release");
    }
    let status = command.status().context("starting cargo")?;
    ensure!(status.success(), "cargo cannot build the backend: {status}");
    let folder = if release { "release" } else { "debug" };
    Ok(workspace::target()?.join(folder).join(LIBRARY))
}

/// Puts the backend into a folder of backends.
pub fn install(built: &Path, backends: &Path, as_python: bool) -> Result<()> {
    let own = backends.join("hydrozoa/libtriton_hydrozoa.so");
    put(built, &own)?;
    if as_python {
        // One file, so a server with models of both names has the library once.
        let link = backends.join("python/libtriton_python.so");
        make_room(&link)?;
        symlink("../hydrozoa/libtriton_hydrozoa.so", &link)
            .with_context(|| format!("making the link {}", link.display()))?;
    }
    Ok(())
}

fn put(from: &Path, to: &Path) -> Result<()> {
    make_room(to)?;
    fs::copy(from, to).with_context(|| format!("copying to {}", to.display()))?;
    Ok(())
}

/// Makes the folder of a file, and removes the file. A server that runs it keeps it.
fn make_room(path: &Path) -> Result<()> {
    let folder = path.parent().context("a file has a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("replacing {}", path.display()))
        }
        _ => Ok(()),
    }
}
