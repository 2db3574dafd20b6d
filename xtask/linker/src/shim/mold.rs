//! mold's own tests: shell scripts that link a program and run it.
//!
//! Those that call `dlopen` run here as they are. If a script builds for a named machine, it runs the linked program
//! through `$QEMU`. A script of that name takes its place: it records the program and preloads the shim if that is
//! wanted.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// The tests' name of this machine (test/common.inc): `$TRIPLE-gcc` and `qemu-MACHINE -L ROOT`.
const TRIPLE: &str = "x86_64-linux-gnu";
const RUNNER: &str = "#!/bin/sh
shift 2
echo \"$@\" >> \"$RAN\"
[ -n \"$SHIM\" ] || exec \"$@\"
LD_PRELOAD=\"$SHIM\" HYDROZOA_SHIM_DIRECTORY=\"$PWD\" exec \"$@\"
";

/// Whether `directory` is a tree of mold's sources.
pub(super) fn is_tree(directory: &Path) -> bool {
    directory.join("test/common.inc").is_file()
}

/// Runs the tests in `sources` that call `dlopen` and whose names contain one of `only`.
pub(super) fn run(sources: &Path, only: &[String], shim: &Path, products: &Path) -> Result<()> {
    let work = prepare(products)?;
    let mut failed = Vec::new();
    let mut applied = 0;
    for script in scripts(sources, only)? {
        let name = script.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let (plain, programs) = execute(&script, &work, None)?;
        if !plain || programs == 0 {
            let reason = if plain { "runs no program here" } else { "fails under glibc alone" };
            println!("{name}: does not apply: {reason}");
            continue;
        }
        applied += 1;
        let (passed, programs) = execute(&script, &work, Some(shim))?;
        println!("{name}: {}, {programs} programs", if passed { "passes" } else { "fails" });
        if !passed {
            failed.push(name);
        }
    }
    println!("{applied} apply, {} fail", failed.len());
    ensure!(applied > 0, "no test applies: is mold installed?");
    ensure!(failed.is_empty(), "these fail under the shim only: {}", failed.join(", "));
    Ok(())
}

fn scripts(sources: &Path, only: &[String]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(sources.join("test"))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let chosen = only.is_empty() || only.iter().any(|only| name.contains(only));
        if chosen && name.ends_with(".sh") && std::fs::read_to_string(&path)?.contains("dlopen") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// The working directory of the scripts. `-B.` finds mold there under the name that compilers use.
fn prepare(products: &Path) -> Result<PathBuf> {
    let work = products.join("mold");
    let _ = std::fs::remove_dir_all(&work);
    std::fs::create_dir_all(work.join("bin"))?;
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mold = std::env::split_paths(&path)
        .map(|folder| folder.join("mold"))
        .find(|file| file.is_file())
        .context("mold is not on PATH (Debian has it in mold)")?;
    symlink(&mold, work.join("mold"))?;
    symlink(&mold, work.join("ld"))?;
    let runner = work.join("bin/qemu-x86_64");
    std::fs::write(&runner, RUNNER)?;
    std::fs::set_permissions(&runner, std::fs::Permissions::from_mode(0o755))?;
    Ok(work)
}

/// Whether the script passed, and how many programs it ran.
fn execute(script: &Path, work: &Path, shim: Option<&Path>) -> Result<(bool, usize)> {
    let ran = work.join("ran");
    std::fs::write(&ran, "")?;
    let mut folders = vec![work.join("bin")];
    folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let status = Command::new("timeout")
        .args(["120", "bash"])
        .arg(script)
        .current_dir(work)
        .env("PATH", std::env::join_paths(folders)?)
        .env("TRIPLE", TRIPLE)
        .env("RAN", &ran)
        .env("SHIM", shim.unwrap_or(Path::new("")))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .context("timeout and bash")?;
    Ok((status.success(), std::fs::read_to_string(&ran)?.lines().count()))
}
