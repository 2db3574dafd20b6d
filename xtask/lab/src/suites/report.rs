//! The driver's report of each test, and the comparison of copies with plain python.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::time_limit::End;

/// How a test ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ending {
    /// `passed`, `failed` or `skipped`.
    pub outcome: String,
    /// The error or the reason, in one line.
    pub why: String,
}

impl Ending {
    pub fn passed(&self) -> bool {
        self.outcome == "passed"
    }
}

/// The report of one process or one copy.
#[derive(Debug, Default)]
pub struct Report {
    pub tests: BTreeMap<String, Ending>,
    /// The test that had started and had not ended.
    pub running: Option<String>,
    /// Whether the driver came to its end.
    pub complete: bool,
}

/// A line of tests/suites/run.py's report.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Start {
        start: String,
    },
    Test {
        test: String,
        outcome: String,
        why: String,
    },
    End {
        #[serde(rename = "end")]
        _status: i64,
    },
}

impl Report {
    /// Reads a report; the last line of a process that died may be cut off.
    pub fn read(path: &Path) -> Self {
        Self::parse(&String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()))
    }

    fn parse(text: &str) -> Self {
        let mut report = Self::default();
        for line in text.lines() {
            match serde_json::from_str(line) {
                Ok(Line::Start { start }) => report.running = Some(start),
                Ok(Line::Test { test, outcome, why }) => {
                    if report.running.as_ref() == Some(&test) {
                        report.running = None;
                    }
                    report.tests.insert(test, Ending { outcome, why });
                }
                // pytest's status only repeats the tests' results.
                Ok(Line::End { .. }) => report.complete = true,
                Err(_) => {}
            }
        }
        report
    }
}

/// The tests that pass in every report.
pub fn passing(reports: &[Report]) -> BTreeSet<String> {
    let Some((first, others)) = reports.split_first() else { return BTreeSet::new() };
    let passed = |report: &Report, test: &str| report.tests.get(test).is_some_and(Ending::passed);
    first
        .tests
        .keys()
        .filter(|test| passed(first, test) && others.iter().all(|other| passed(other, test)))
        .cloned()
        .collect()
}

/// One run's results in copies, for the tests that pass plainly.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Tests that ended in every copy: they need no second run.
    pub ended: BTreeSet<String>,
    /// Tests that did not pass in some copy, and what happened.
    pub different: BTreeMap<String, String>,
    /// Tests that ran when the process died or was late.
    pub cut_off: BTreeMap<String, String>,
    /// Whether every copy came to its end.
    pub complete: bool,
}

/// Compares the copies' reports with the tests that pass plainly.
pub fn compare(passing: &BTreeSet<String>, copies: &[Report], end: End) -> Comparison {
    let mut found =
        Comparison { complete: copies.iter().all(|copy| copy.complete), ..Comparison::default() };
    for (number, copy) in (1..).zip(copies) {
        for (test, ending) in copy.tests.iter().filter(|(_, ending)| !ending.passed()) {
            if passing.contains(test) {
                let text = format!("copy {number}: {}: {}", ending.outcome, ending.why);
                found.different.entry(test.clone()).or_insert(text);
            }
        }
        if let Some(test) = &copy.running
            && !copy.complete
        {
            let text = format!("copy {number} ran it: {}", end.words());
            found.cut_off.entry(test.clone()).or_insert(text);
        }
    }
    if let Some((first, others)) = copies.split_first() {
        let everywhere =
            |test: &&String| others.iter().all(|other| other.tests.contains_key(*test));
        found.ended = first.tests.keys().filter(everywhere).cloned().collect();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(test: &str, outcome: &str) -> String {
        format!(
            "{{\"start\": \"{test}\"}}\n{{\"test\": \"{test}\", \"outcome\": \"{outcome}\", \"why\": \"w\"}}\n"
        )
    }

    #[test]
    fn a_report_that_breaks_off_names_the_test_that_ran() {
        let text =
            format!("{}{{\"start\": \"b\"}}\n{{\"test\": \"b\", \"outco", line("a", "passed"));
        let report = Report::parse(&text);
        assert_eq!(report.running.as_deref(), Some("b"));
        assert!(!report.complete && report.tests.len() == 1 && report.tests["a"].passed());
        let report = Report::parse(&format!("{}{{\"end\": 1}}\n", line("a", "failed")));
        assert!(report.complete && report.running.is_none());
    }

    #[test]
    fn only_what_passes_plainly_can_differ() {
        let plain = |third: &str| {
            let text = line("a", "passed") + &line("b", "passed") + &line("c", third);
            Report::parse(&(text + "{\"end\": 0}\n"))
        };
        // A test that fails in one of two plain processes says nothing about copies.
        let passing = passing(&[plain("passed"), plain("failed")]);
        assert_eq!(passing.iter().map(String::as_str).collect::<Vec<_>>(), ["a", "b"]);
        let first =
            Report::parse(&(line("a", "passed") + &line("c", "failed") + "{\"start\": \"b\"}\n"));
        let second = Report::parse(&(line("a", "failed") + "{\"start\": \"d\"}\n"));
        let found = compare(&passing, &[first, second], End::Signal(11));
        assert_eq!(found.different, BTreeMap::from([("a".into(), "copy 2: failed: w".into())]));
        let cut: Vec<_> =
            found.cut_off.iter().map(|(test, why)| format!("{test}: {why}")).collect();
        assert_eq!(cut, ["b: copy 1 ran it: SIGSEGV", "d: copy 2 ran it: SIGSEGV"]);
        assert!(!found.complete);
        assert_eq!(found.ended.into_iter().collect::<Vec<_>>(), ["a"]);
    }
}
