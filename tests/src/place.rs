//! Where the tests find what `cargo xtask test` has prepared.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

/// The virtual environment with torch: `HYDROZOA_TEST_VENV`.
///
/// # Errors
///
/// The variable is not set. The test is not skipped then: a test that did not run has not passed.
pub fn venv() -> Result<PathBuf> {
    named("HYDROZOA_TEST_VENV")
}

/// The exported models: `HYDROZOA_TEST_MODELS`.
///
/// # Errors
///
/// The variable is not set.
pub fn models() -> Result<PathBuf> {
    named("HYDROZOA_TEST_MODELS")
}

/// The `hydrozoa` command: `HYDROZOA_TEST_COMMAND`.
///
/// # Errors
///
/// The variable is not set.
pub fn command() -> Result<PathBuf> {
    named("HYDROZOA_TEST_COMMAND")
}

/// How often a race is run: `HYDROZOA_TEST_REPETITIONS`, else 20.
///
/// # Errors
///
/// The variable is not a number.
pub fn repetitions() -> Result<usize> {
    env::var("HYDROZOA_TEST_REPETITIONS")
        .map_or(Ok(20), |text| text.parse().context("HYDROZOA_TEST_REPETITIONS"))
}

/// A virtual environment with numpy of each CPython of the machine: `HYDROZOA_TEST_PYTHONS`.
///
/// # Errors
///
/// The variable is not set.
pub fn pythons() -> Result<Vec<PathBuf>> {
    Ok(env::split_paths(&named("HYDROZOA_TEST_PYTHONS")?).collect())
}

/// A script in `tests/scripts`.
pub fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts").join(name)
}

/// An empty folder for one test, removed with the value.
///
/// # Errors
///
/// It cannot be made.
pub fn scratch(name: &str) -> Result<TempDir> {
    let prefix = format!("hydrozoa-{name}-");
    let made = tempfile::Builder::new().prefix(&prefix).tempdir();
    made.with_context(|| format!("a folder for {name} in {}", env::temp_dir().display()))
}

fn named(variable: &str) -> Result<PathBuf> {
    env::var_os(variable)
        .map(PathBuf::from)
        .with_context(|| format!("{variable} is not set: these tests are run by `cargo xtask test`, which prepares what they need"))
}
