//! Tests that the suite runs in a short form, in their long one.

use std::path::Path;

use anyhow::{Result, ensure};

use crate::environment::Environment;
use crate::libtest::counted;
use crate::{python, workspace};

/// Arguments of `cargo test`, and the variable that says how often something happens.
const TESTS: [(&[&str], (&str, &str)); 2] = [
    (
        &["--package", "hydrozoa-models", "--test", "package_reloads"],
        ("HYDROZOA_TEST_RELOADS", "1000"),
    ),
    (
        &["--package", "hydrozoa-server", "--test", "mutated", "--test", "grpc"],
        ("HYDROZOA_TEST_MALFORMED", "10000"),
    ),
];

/// 1,000 reloads of a package that changes while it is served, with and without torch, and 10,000 malformed requests over each
/// protocol.
pub fn run(hydrozoa: &Path) -> Result<()> {
    let environment = Environment::with_torch(python::find(None)?)?;
    let clients = environment.with_clients()?;
    let mut failures = Vec::new();
    for (arguments, (variable, count)) in TESTS {
        let mut command = workspace::cargo();
        command.args(["test", "--release", "--no-fail-fast"]).args(arguments);
        command.env("HYDROZOA_TEST_VENV", environment.root());
        command.env("HYDROZOA_TEST_CLIENTS", clients.root());
        command.env("HYDROZOA_TEST_COMMAND", hydrozoa).env("OMP_NUM_THREADS", "1");
        failures.extend(counted(command.env(variable, count))?.failures);
    }
    ensure!(failures.is_empty(), "tests failed: {}", failures.join(", "));
    Ok(())
}
