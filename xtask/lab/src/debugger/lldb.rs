//! lldb, with the command of loader/debuggers.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::host::Host;
use super::{text_of, tool};
use crate::workspace;

/// Attaches to three interpreters and checks that frames of the third have names and lines.
pub(super) fn attach(host: &Host) -> Result<()> {
    const COPIES: usize = 3;
    let waiting = host.wait(COPIES)?;
    let script = workspace::root().join("loader/debuggers/hydrozoa_lldb.py");
    let mut command = Command::new("lldb");
    command
        .args(["--no-lldbinit", "--batch", "-p", &waiting.process().to_string()])
        .args(["-o", &format!("command script import {}", script.display())])
        .args(["-o", "hydrozoa-modules", "-o", "thread backtrace", "-o", "image list"])
        .args(["-o", "detach"]);
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    // Some lldb packages of Debian look for their own module in a folder where it is not installed.
    if let Some(modules) = modules() {
        command.env("PYTHONPATH", modules);
    }
    let text = text_of(&tool(&mut command, "lldb")?)?;
    let library = host.library.file_name().unwrap_or_default().to_string_lossy();
    let listed = text
        .lines()
        .filter(|line| line.starts_with('[') && line.trim_end().ends_with(&*library))
        .count();
    ensure!(listed == COPIES, "lldb lists {listed} of {COPIES} replicas of {library}:\n{text}");
    let frame = |function: &str, file: &str| {
        text.lines()
            .find(|line| line.contains(function) && line.contains(file))
            .map(|line| line.trim().to_owned())
            .with_context(|| format!("no frame of {function} in {file}:\n{text}"))
    };
    println!("{}\n{}", frame("wait_here", "frame.c:")?, frame("_PyEval_EvalFrameDefault", ".c:")?);
    Ok(())
}

/// The folder of lldb's own module, if `lldb -P` gives a wrong one.
fn modules() -> Option<std::path::PathBuf> {
    let said = Command::new("lldb").arg("-P").output().ok()?;
    if std::path::Path::new(String::from_utf8_lossy(&said.stdout).trim()).is_dir() {
        return None;
    }
    let entries = |path: &std::path::Path| {
        let mut found: Vec<_> = std::fs::read_dir(path)
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect();
        found.sort();
        found
    };
    let versions = entries(std::path::Path::new("/usr/lib"));
    versions
        .iter()
        .filter(|path| path.to_string_lossy().contains("/llvm-"))
        .flat_map(|version| entries(&version.join("lib")))
        .map(|library| library.join("dist-packages"))
        .rfind(|folder| folder.join("lldb").is_dir())
}
