//! Contained crashes, end to end: the tests of the Python package.

use anyhow::Result;

use super::suites::Suite;
use super::system::System;
use super::{TARGET, copies, fetched};
use crate::steps::Outcome;

/// A child with memory of its own, whose end sends no signal: it reads the stacks of Python.
const CHILD: &str =
    "the emulator makes no such child as reads Python's stacks, so the report has none";

/// Tests that do not run, with reasons.
const LEFT: [(&str, &str); 2] = [
    (
        "test_crashes.Executors.test_a_crash_is_the_error_of_its_future_and_the_others_have_results",
        CHILD,
    ),
    (
        "test_crashes.Interpreters.test_an_interpreter_that_has_crashed_stays_so_and_others_go_on",
        CHILD,
    ),
];

pub(super) fn run(system: &System) -> Result<Outcome> {
    let site = fetched::packages(system, "site", &copies::WHEELS)?;
    let suite = Suite {
        name: "crashes",
        options: "unittest --path /src/doors/python/tests".to_owned(),
        variables: format!(
            "HYDROZOA_LIBRARY=/target/{TARGET}/debug/libhydrozoa.so PYTHONPATH=/src/doors/python:{site}"
        ),
        shards: vec!["test_crashes".to_owned()],
        left: &LEFT,
    };
    suite.plainly(system)
}

#[cfg(test)]
mod tests {
    use super::LEFT;

    #[test]
    fn tests_that_do_not_run_are_there() {
        let file = include_str!("../../../doors/python/tests/test_crashes.py");
        for (test, _) in LEFT {
            let name = test.rsplit('.').next().unwrap();
            assert!(file.contains(&format!("def {name}(")), "no test {name}");
        }
    }
}
