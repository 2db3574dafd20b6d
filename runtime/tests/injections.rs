//! Faults at random instructions of an interpreter's code: each is contained, or ends the process with a report that says why.
//! Nothing hangs, and no answer is wrong.

mod common;
mod injecting;
mod pythons;

use common::venv;
use injecting::{injected, injections};

#[test]
fn faults_at_random_instructions_of_imports_and_calls_are_contained_or_reported() {
    let tally = injected("bare", injections(16), None);
    tally.assert_right();
    assert!(tally.contained * 2 > tally.faults, "{}", tally.table());
}

#[test]
fn faults_at_random_instructions_of_python_threads_are_contained_or_reported() {
    let tally = injected("threads", injections(16), None);
    tally.assert_right();
    assert!(tally.contained * 2 > tally.faults, "{}", tally.table());
}

#[test]
fn faults_at_random_instructions_of_the_c_library_are_contained_or_reported() {
    injected("system", injections(10), None).assert_right();
}

#[test]
fn faults_at_random_instructions_of_numpy_are_contained_or_reported() {
    injected("numpy", injections(5), Some(venv())).assert_right();
}

#[test]
fn faults_at_random_instructions_of_torch_are_contained_or_reported() {
    injected("torch", injections(2), Some(venv())).assert_right();
}

/// Not a test: the process with faults.
#[test]
fn inside() {
    injecting::inside();
}
