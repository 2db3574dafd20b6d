//! CPython's own tests, inside of an application.

use crate::application::{run, seal_of};
use hydrozoa::python::{self, Installation};
use std::env;
use std::process::Command;

/// They take some seconds. `HYDROZOA_TEST_SEALED` names others, separated by spaces.
const TESTS: &str = "test_importlib test_pkgutil test_zoneinfo test_sqlite3 test_ctypes";

#[test]
fn cpython_s_own_tests_pass_inside() {
    let mut found = python::discover().into_iter().filter_map(|candidate| candidate.verdict.ok());
    let has_tests = |found: &Installation| {
        let folder = format!("lib/python3.{}/test/test_importlib", found.minor());
        found.prefix().join(folder).exists()
    };
    // Distributions leave CPython's tests away.
    let found = found.find(has_tests);
    let found =
        found.expect("this test needs a CPython with the package `test`, as pyenv installs it");
    let tests = env::var("HYDROZOA_TEST_SEALED").unwrap_or_else(|_| TESTS.to_owned());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tests");
    run(seal_of(&found, &file).args(["--keep", "*", "--allow", "tmp,zone,certs"]));
    let mut command = Command::new(&file);
    command.args(["-m", "test"]).args(tests.split_whitespace()).current_dir(folder.path());
    let said = run(&mut command);
    assert!(said.contains(&format!("All {} tests OK", tests.split_whitespace().count())), "{said}");
}
