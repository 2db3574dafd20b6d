//! The sources of projects, whose wheels have no tests.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cache::CacheFolder;
use crate::python::Python;
use crate::{lock, venv};

/// The unpacked sources of a project, of the release that the environment has.
pub fn of(python: &Python, project: &str) -> Result<PathBuf> {
    let line =
        lock::SOURCES_OF_PROTOCOLS.lines().find(|line| line.starts_with(&format!("{project}==")));
    let line = line.with_context(|| format!("{project} is not in the lock file"))?;
    let release = line.split_once(' ').map_or(line, |(pin, _)| pin).replace("==", "-");
    let entry = CacheFolder::open(&format!("source-{release}"))?;
    entry.complete(|folder| {
        let requirements = folder.join("requirements.txt");
        fs::write(&requirements, line)?;
        let mut pip = venv::clean(Command::new(&python.executable));
        pip.args([
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            ":all:",
            "--require-hashes",
        ]);
        pip.arg("--dest").arg(folder).arg("--requirement").arg(requirements);
        ensure!(pip.status().context("starting pip")?.success(), "pip cannot download {release}");
        let archive = folder.join(format!("{release}.tar.gz"));
        let mut tar = Command::new("tar");
        tar.arg("--extract").arg("--file").arg(&archive).arg("--directory").arg(folder);
        ensure!(tar.status().context("starting tar")?.success(), "tar cannot unpack {release}");
        Ok(())
    })?;
    Ok(entry.folder().join(release))
}
