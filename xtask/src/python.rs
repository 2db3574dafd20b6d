//! Finds a CPython with a shared library, and reports why it refused a candidate.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

/// The minor versions for which `xtask/locks` pins packages, in order of preference.
pub const MINORS: [u8; 4] = [11, 12, 13, 10];

/// An interpreter whose build has a shared libpython.
#[derive(Debug, Clone)]
pub struct Python {
    /// The minor version: 11 for CPython 3.11.
    pub minor: u8,
    /// The executable.
    pub executable: PathBuf,
}

/// The first CPython of the wanted minor version, or of any in [`MINORS`], that has a shared library.
pub fn find(minor: Option<u8>) -> Result<Python> {
    let mut refused = Vec::new();
    for minor in
        MINORS.into_iter().filter(|candidate| minor.is_none_or(|wanted| wanted == *candidate))
    {
        for executable in candidates(minor) {
            match verdict(&executable, minor) {
                Ok(()) => return Ok(Python { minor, executable }),
                Err(reason) => refused.push(format!("  {}: {reason}", executable.display())),
            }
        }
    }
    let seen = if refused.is_empty() { "  none was found".to_owned() } else { refused.join("\n") };
    bail!(
        "no CPython 3.10 to 3.13 with a shared library:\n{seen}\n\
         install one, for example: PYTHON_CONFIGURE_OPTS=--enable-shared pyenv install 3.11"
    )
}

/// The versions of pyenv, newest patch first, then the interpreters on PATH.
fn candidates(minor: u8) -> Vec<PathBuf> {
    let name = format!("python3.{minor}");
    let pyenv = std::env::var_os("PYENV_ROOT")
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".pyenv")));
    let mut versions: Vec<(u32, PathBuf)> = pyenv
        .and_then(|root| std::fs::read_dir(root.join("versions")).ok())
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let patch =
                entry.file_name().to_str()?.strip_prefix(&format!("3.{minor}."))?.parse().ok()?;
            Some((patch, entry.path().join("bin").join(&name)))
        })
        .collect();
    versions.sort_by_key(|(patch, _)| std::cmp::Reverse(*patch));
    let path = std::env::var_os("PATH").unwrap_or_default();
    // pyenv's shims run the version that a folder selects, not the version in their name.
    let on_path = std::env::split_paths(&path)
        .filter(|folder| !folder.ends_with("shims"))
        .map(|folder| folder.join(&name));
    let mut found: Vec<PathBuf> =
        versions.into_iter().map(|(_, path)| path).chain(on_path).collect();
    found.retain(|path| path.exists());
    found.dedup();
    found
}

/// Why an executable cannot be used; `None` if it can.
fn verdict(executable: &Path, minor: u8) -> Result<(), String> {
    // INSTSONAME is the library's file name and LIBDIR its folder (CPython, Makefile.pre.in).
    let program = "import os, sys, sysconfig, venv, ensurepip\n\
                   v = sysconfig.get_config_var\n\
                   path = os.path.join(v('LIBDIR') or '', v('INSTSONAME') or '')\n\
                   print(sys.implementation.name, sys.version_info[1], v('Py_ENABLE_SHARED') or 0, os.path.isfile(path))";
    let output = Command::new(executable)
        .args(["-I", "-c", program])
        .output()
        .map_err(|error| error.to_string())?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(message.lines().last().unwrap_or("it does not run").to_owned());
    }
    match String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>()[..] {
        ["cpython", found, "1", "True"] if found == minor.to_string() => Ok(()),
        ["cpython", _, "0", _] => Err("built without --enable-shared".to_owned()),
        ["cpython", _, _, "False"] => Err("its shared library is missing".to_owned()),
        _ => Err(format!("it is not CPython 3.{minor}")),
    }
}
