//! Interpreters in the process of a python that is of the same installation.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use hydrozoa_tests::place;

/// The library that the python loads: an example of this crate, which `cargo test` builds with its tests.
fn library() -> Result<PathBuf> {
    let program = env::current_exe()?;
    let profile =
        program.ancestors().nth(2).context("a test program lies in target/PROFILE/deps")?;
    let library = profile.join("examples/libin_python.so");
    ensure!(
        library.is_file(),
        "{} is missing: `cargo build --package hydrozoa-tests --examples` makes it",
        library.display()
    );
    Ok(library)
}

/// Runs the script; returns its output and errors.
fn run(modules: &str) -> Result<(String, String)> {
    let output = Command::new(place::venv()?.join("bin/python"))
        .arg(place::script("in_python.py"))
        .arg(library()?)
        .arg(modules)
        .output()?;
    let [printed, errors] =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    ensure!(output.status.success(), "{modules}: {}\n{printed}{errors}", output.status);
    Ok((printed, errors))
}

pub fn works() -> Result<()> {
    for modules in ["", "numpy", "numpy torch"] {
        let (printed, errors) = run(modules)?;
        ensure!(printed.trim() == "before 0, after 0", "{modules:?}: {printed}{errors}");
    }
    Ok(())
}
