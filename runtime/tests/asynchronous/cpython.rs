//! CPython's own tests of asyncio, on a loop that sleeps outside. They run in plain python: a test makes its loops itself.

use crate::pythons::pythons;
use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Those that take a few seconds. `HYDROZOA_TEST_ASYNCIO=all` runs all, which takes some minutes for each CPython.
const MODULES: &str = "pep492,queues,streams,threads,timeouts";

/// Starts the tests, on loops with the payload's selector if it is told where that is.
fn start(python: &Path, modules: &str, payload: Option<&Path>) -> Child {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/asynchronous/cpython_suite.py");
    let mut command = Command::new(python);
    command.arg(script).arg(modules).args(payload);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The outcomes by tests, and what the tests have written.
fn outcomes(child: Child) -> (BTreeMap<String, String>, String) {
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let pairs = lines.lines().filter(|line| line.starts_with("test."));
    let pairs = pairs.filter_map(|line| line.split_once(' '));
    (pairs.map(|(test, outcome)| (test.to_owned(), outcome.to_owned())).collect(), errors)
}

#[test]
fn cpython_s_own_tests_of_asyncio_have_the_same_outcomes_on_a_loop_that_sleeps_outside() {
    let modules = env::var("HYDROZOA_TEST_ASYNCIO").unwrap_or_else(|_| MODULES.to_owned());
    let payload = Path::new(env!("CARGO_MANIFEST_DIR")).join("../payload/python");
    let mut count = 0;
    for (minor, library) in pythons() {
        let installation = hydrozoa::python::find(Some(library)).unwrap();
        let prefix: PathBuf = installation.prefix().to_owned();
        // Distributions leave CPython's tests away.
        if !prefix.join(format!("lib/python3.{minor}/test/test_asyncio")).exists() {
            println!("3.{minor} has no tests");
            continue;
        }
        let python = prefix.join(format!("bin/python3.{minor}"));
        let (stock, _) = outcomes(start(&python, &modules, None));
        let (driven, errors) = outcomes(start(&python, &modules, Some(&payload)));
        println!("3.{minor}: {} tests", driven.len());
        assert!(stock.values().filter(|outcome| *outcome == "ok").count() > 100);
        let of = |outcomes: &BTreeMap<String, String>, test: &String| outcomes.get(test).cloned();
        let differing: Vec<_> = stock
            .keys()
            .chain(driven.keys())
            .map(|test| (test, of(&stock, test), of(&driven, test)))
            .filter(|(_, stock, driven)| stock != driven)
            .collect();
        assert!(differing.is_empty(), "3.{minor}: {differing:#?}\n{errors}");
        count += 1;
    }
    assert!(count > 0, "this test needs a CPython with the package `test`, as pyenv installs it");
}
