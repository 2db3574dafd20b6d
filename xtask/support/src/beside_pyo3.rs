//! The programs of `benches/pyo3`. They are not in the workspace, since PyO3 has them link one libpython.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::environment::Environment;
use crate::libtest::counted;
use crate::python::Python;
use crate::steps::{Outcome, check};
use crate::workspace;

/// Prints a configuration of pyo3-build-config for a Python that other programs embed.
const CONFIGURATION: &str = "import sys, sysconfig\n\
    value = sysconfig.get_config_var\n\
    print('implementation=CPython\\nshared=true\\nbuild_flags=')\n\
    print(f'version={value(\"py_version_short\")}')\n\
    print(f'pointer_width={value(\"SIZEOF_VOID_P\") * 8}')\n\
    print(f'lib_name=python{value(\"LDVERSION\")}')\n\
    print(f'lib_dir={value(\"LIBDIR\")}')\n\
    print(f'executable={sys.executable}')";

/// cargo in `benches/pyo3`, with the libpython of `python` for PyO3.
pub fn cargo(python: &Python) -> Result<Command> {
    let folder = workspace::root().join("target/pyo3");
    let mut command = workspace::cargo();
    command
        .current_dir(workspace::root().join("benches/pyo3"))
        .env("PYO3_CONFIG_FILE", configuration(python, &folder)?)
        .env("CARGO_TARGET_DIR", folder);
    Ok(command)
}

/// Lints of all programs, and PyO3's side of the snippets of `docs/from-pyo3.md`.
pub fn test(environment: &Environment) -> Result<Outcome> {
    let python = environment.base();
    let mut outcome = check(cargo(python)?.args(["fmt", "--all", "--check"]))?;
    // A lint runs no payload, so none is built.
    let flags = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    outcome.add(check(cargo(python)?.args(flags).env("DOCS_RS", "1"))?);
    let packages = format!("lib/python3.{}/site-packages", python.minor);
    let mut tests = cargo(python)?;
    tests
        .args(["test", "--package", "hydrozoa-pyo3-snippets"])
        .env("PYTHONHOME", print(python, "import sys; print(sys.base_prefix)")?.trim())
        .env("PYTHONPATH", environment.root().join(packages));
    outcome.add(counted(&mut tests)?);
    Ok(outcome)
}

/// Writes the file in `folder` from which PyO3 learns what to link. The checkout's configuration of cargo names a file
/// for payloads, so that PyO3 would not ask a Python.
fn configuration(python: &Python, folder: &Path) -> Result<PathBuf> {
    let text = print(python, CONFIGURATION)?;
    std::fs::create_dir_all(folder)?;
    let path = folder.join("python.txt");
    // cargo builds PyO3 again when the file is newer.
    if std::fs::read_to_string(&path).ok().as_ref() != Some(&text) {
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(path)
}

/// The output of a line of Python.
fn print(python: &Python, program: &str) -> Result<String> {
    let output = Command::new(&python.executable)
        .args(["-I", "-c", program])
        .output()
        .context("starting python")?;
    ensure!(output.status.success(), "python: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
