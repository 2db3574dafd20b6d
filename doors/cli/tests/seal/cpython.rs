//! CPython's own tests, inside of an application.

use crate::application::{found, run, seal};
use std::env;
use std::process::Command;

/// They take some seconds. `HYDROZOA_TEST_SEALED` names others, separated by spaces.
const TESTS: &str = "test_importlib test_pkgutil test_zoneinfo test_sqlite3 test_ctypes";

#[test]
fn cpython_s_own_tests_pass_inside() {
    let found = found();
    let folder = format!("lib/python3.{}/test/test_importlib", found.minor());
    if !found.prefix().join(folder).exists() {
        // Distributions leave CPython's tests away. pyenv's, which CI has, do not.
        println!("NOT TRIED: {} has no package `test`", found.prefix().display());
        return;
    }
    let tests = env::var("HYDROZOA_TEST_SEALED").unwrap_or_else(|_| TESTS.to_owned());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tests");
    run(seal(&file).args(["--keep", "*", "--allow", "tmp,zone,certs"]));
    let mut command = Command::new(&file);
    command.args(["-m", "test"]).args(tests.split_whitespace()).current_dir(folder.path());
    let said = run(&mut command);
    assert!(said.contains(&format!("All {} tests OK", tests.split_whitespace().count())), "{said}");
}
