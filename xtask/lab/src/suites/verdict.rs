//! One shard: its tests in plain python, in copies, and those that differ once more.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::report::{compare, passing};
use super::sides::{Choice, Outcome, Sides};
use super::suite::Shard;
use crate::time_limit::End;

/// How often a shard's process may die or be late before its other tests are given up.
const ATTEMPTS: usize = 6;

/// The name used for the test if a process ends before its first test or after its last.
const NO_TEST: &str = "no test";

/// Plain python's results for a shard. They are kept apart, because they do not depend on the tried program.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plain {
    pub key: String,
    /// Tests that some process began and ended.
    pub tests: usize,
    /// Tests that pass in every plain process.
    pub passing: BTreeSet<String>,
    /// The tests that ran when a plain process died or was late: what came after them did not run.
    pub cut_off: Vec<String>,
}

/// A test that passes plainly and not in copies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    pub test: String,
    /// The event, in one line.
    pub what: String,
    /// Whether it happened again when only the tests that differ ran.
    pub again: bool,
}

/// The copies' results for a shard.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Verdict {
    pub key: String,
    pub differences: Vec<Difference>,
    /// Processes that ended before their tests did.
    pub deaths: Vec<String>,
}

/// Runs a shard in plain python.
pub fn plain(sides: &Sides<'_>, shard: &Shard, key: &str) -> Result<Plain> {
    let reports = sides.plain(shard, &Choice::Leave(&BTreeSet::new()))?;
    let tests: BTreeSet<&String> = reports.iter().flat_map(|report| report.tests.keys()).collect();
    let cut_off = reports.iter().filter(|report| !report.complete);
    let cut_off = cut_off.map(|report| report.running.clone().unwrap_or_else(|| NO_TEST.into()));
    Ok(Plain {
        key: key.to_owned(),
        tests: tests.len(),
        passing: passing(&reports),
        cut_off: cut_off.collect(),
    })
}

/// Runs a shard in copies. When the process dies, the tests that ran then are left out and the rest runs again.
pub fn copies(sides: &Sides<'_>, shard: &Shard, plain: &Plain, key: &str) -> Result<Verdict> {
    let mut different: BTreeMap<String, String> = BTreeMap::new();
    let mut cut_off: BTreeMap<String, String> = BTreeMap::new();
    let mut deaths = Vec::new();
    let mut leave = BTreeSet::new();
    for _ in 0..ATTEMPTS {
        let outcome = sides.copies(shard, &Choice::Leave(&leave))?;
        let found = compare(&plain.passing, &outcome.reports, outcome.end);
        different.extend(found.different);
        leave.extend(found.ended);
        if found.complete {
            // The tests ended and the process did not end well.
            if outcome.end != End::Exited(0) {
                deaths.push(format!("at its end: {}: {}", outcome.end.words(), outcome.last));
            }
            break;
        }
        deaths.extend(death(&found.cut_off, plain, &outcome));
        if found.cut_off.is_empty() {
            break;
        }
        leave.extend(found.cut_off.keys().cloned());
        cut_off.extend(found.cut_off);
    }
    for test in plain.passing.iter().filter(|test| !leave.contains(*test)) {
        different.entry(test.clone()).or_insert_with(|| "it did not run in every copy".to_owned());
    }
    cut_off.retain(|test, _| plain.passing.contains(test) && !different.contains_key(test));
    let mut differences = confirm(sides, shard, different)?;
    // A test that ran when the process died is run alone: another one may have been the cause.
    for (test, what) in cut_off {
        differences.extend(confirm(sides, shard, BTreeMap::from([(test, what)]))?);
    }
    Ok(Verdict { key: key.to_owned(), differences, deaths })
}

/// The tests during which the process ended early, in words. A process that dies in a test that does not pass plainly either, or
/// outside of tests where a plain one does, too, says nothing about copies.
fn death(cut_off: &BTreeMap<String, String>, plain: &Plain, outcome: &Outcome) -> Option<String> {
    let during: Vec<&str> = cut_off.keys().map(String::as_str).collect();
    let words = format!("{} during", outcome.end.words());
    if during.is_empty() {
        let says = !plain.cut_off.iter().any(|test| test == NO_TEST);
        return says.then(|| format!("{words} {NO_TEST}: {}", outcome.last));
    }
    let says = during.iter().any(|test| plain.passing.contains(*test));
    says.then(|| format!("{words} {}: {}", during.join(", "), outcome.last))
}

/// Runs the tests that differ once more, on both sides: which of them differ again?
fn confirm(
    sides: &Sides<'_>,
    shard: &Shard,
    different: BTreeMap<String, String>,
) -> Result<Vec<Difference>> {
    if different.is_empty() {
        return Ok(Vec::new());
    }
    let select: BTreeSet<String> = different.keys().cloned().collect();
    let choice = Choice::Select(&select);
    let plain = passing(&sides.plain(shard, &choice)?);
    let outcome = sides.copies(shard, &choice)?;
    let passed = passing(&outcome.reports);
    Ok(different
        .into_iter()
        .map(|(test, what)| {
            let again = plain.contains(&test) && !passed.contains(&test);
            Difference { test, what, again }
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_counts_unless_plain_python_does_not_pass_the_test_either() {
        let outcome = Outcome { end: End::Late, reports: Vec::new(), last: "last".to_owned() };
        let cut_off = |tests: &[&str]| -> BTreeMap<String, String> {
            tests.iter().map(|test| ((*test).to_owned(), String::new())).collect()
        };
        let mut plain = Plain {
            key: String::new(),
            tests: 2,
            passing: BTreeSet::from(["a".to_owned()]),
            cut_off: vec!["b".to_owned()],
        };
        let late = "killed at its time limit during";
        let died = |plain: &Plain, tests: &[&str]| death(&cut_off(tests), plain, &outcome);
        assert_eq!(died(&plain, &["a", "b"]), Some(format!("{late} a, b: last")));
        assert_eq!(died(&plain, &[]), Some(format!("{late} no test: last")));
        assert_eq!(died(&plain, &["b"]), None);
        plain.cut_off.push(NO_TEST.to_owned());
        assert_eq!(died(&plain, &[]), None);
        assert!(died(&plain, &["a"]).is_some());
    }
}
