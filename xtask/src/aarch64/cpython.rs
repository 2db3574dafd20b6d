//! CPython's tests of what depends most on a loader: ctypes, threads and imports.

use anyhow::Result;

use super::fetched;
use super::suites::Suite;
use super::system::{MINOR, System};
use crate::steps::Outcome;

/// Each in a process of its own.
const MODULES: [&str; 3] = ["test.test_ctypes", "test.test_threading", "test.test_importlib"];

/// A test that does not run, with the reason.
const LEFT: [(&str, &str); 1] = [(
    "test.test_threading.ThreadingExceptionTests.test_print_exception_gh_102056",
    "a child of plain python's recurses until it is interrupted, which takes the emulator minutes",
)];

pub(super) fn run(system: &System) -> Result<Outcome> {
    let package = format!("libpython3.{MINOR}-testsuite");
    fetched::debian(system, "testsuite", &[&package])?;
    let suite = Suite {
        name: "cpython",
        options: "unittest".to_owned(),
        variables: String::new(),
        shards: MODULES.map(str::to_owned).to_vec(),
        left: &LEFT,
    };
    suite.run(system)
}
