//! The list of tests that pass on another server and not on `hydrozoa run`, with the reasons.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

use super::server::Contender;
use super::suite::{Found, SUITES};

/// The list. A line is `SUITE | passes N`, or `SUITE | TEST | REASON`. A `*` at a test's end stands for any end.
pub struct Expected {
    /// The least number of tests that pass, by suite: a suite that runs hardly any has no differences.
    passes: BTreeMap<String, usize>,
    lines: Vec<Line>,
}

struct Line {
    suite: String,
    test: String,
}

impl Line {
    fn is_of(&self, suite: &str, test: &str) -> bool {
        self.suite == suite
            && match self.test.strip_suffix('*') {
                Some(begin) => test.starts_with(begin),
                None => test == self.test,
            }
    }
}

impl Expected {
    /// Reads the list.
    pub fn parse(text: &str) -> Result<Self> {
        let (mut passes, mut lines) = (BTreeMap::new(), Vec::new());
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let parts: Vec<&str> = line.split(" | ").map(str::trim).collect();
            match parts[..] {
                [suite, number] => {
                    let number = number.strip_prefix("passes ").and_then(|one| one.parse().ok());
                    passes.insert(suite.to_owned(), number.with_context(|| line.to_owned())?);
                }
                [suite, test, reason] => {
                    ensure!(!reason.is_empty(), "{line}: it has no reason");
                    lines.push(Line { suite: suite.to_owned(), test: test.to_owned() });
                }
                _ => anyhow::bail!("{line}: it is SUITE | passes N, or SUITE | TEST | REASON"),
            }
        }
        for suite in &SUITES {
            ensure!(passes.contains_key(suite.name), "{} has no line `passes N`", suite.name);
        }
        Ok(Self { passes, lines })
    }

    /// The differences from the list, in words.
    pub fn differences(&self, suite: &str, found: &Found) -> Vec<String> {
        let differences = found.differences();
        let mut wrong = Vec::new();
        for (test, (result, others)) in &differences {
            if !self.lines.iter().any(|line| line.is_of(suite, test)) {
                let others: Vec<_> = others.iter().map(|other| other.name()).collect();
                wrong.push(format!("{suite} | {test} | passes on {}: {result}", others.join(", ")));
            }
        }
        for line in self.lines.iter().filter(|line| line.suite == suite) {
            if !differences.keys().any(|test| line.is_of(suite, test)) {
                wrong.push(format!(
                    "{suite} | {}: it differs no longer: remove the line",
                    line.test
                ));
            }
        }
        let (passing, least) = (found.passing(Contender::Hydrozoa), self.passes.get(suite));
        if let Some(least) = least.filter(|least| passing < **least) {
            wrong.push(format!("{suite}: {passing} tests pass, and the list says {least}"));
        }
        wrong
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocols::suite::Tests;

    fn list(further: &str) -> Result<Expected> {
        let floors: String =
            SUITES.iter().map(|suite| format!("{} | passes 1\n", suite.name)).collect();
        Expected::parse(&format!("# a comment\n{floors}{further}"))
    }

    fn found(own: &str) -> Found {
        let tests = |result: &str| {
            Tests::from([("a[1]".into(), "passed".into()), ("b".into(), result.into())])
        };
        let mut found = Found::default();
        found.add(Contender::Hydrozoa, tests(own));
        found.add(Contender::Granian, tests("passed"));
        found
    }

    #[test]
    fn a_difference_without_a_line_and_a_line_without_a_difference_are_wrong() {
        let wrong = |further, own| list(further).unwrap().differences("http1", &found(own));
        assert!(wrong("", "passed").is_empty());
        assert_eq!(wrong("", "failed: why"), ["http1 | b | passes on granian: failed: why"]);
        assert!(wrong("http1 | b* | it is so\n", "failed: why").is_empty());
        assert_eq!(wrong("http1 | b | it is so\n", "passed").len(), 1);
        assert_eq!(wrong("http1 | a* | it is so\n", "failed: why").len(), 2);
        assert_eq!(wrong("http1 | passes 3\n", "passed").len(), 1);
    }

    #[test]
    fn a_line_without_a_reason_or_a_suite_without_a_number_is_an_error() {
        for wrong in ["http1 | b | \n", "http1 | passes many\n", "http1\n"] {
            assert!(list(wrong).is_err(), "{wrong}");
        }
        assert!(Expected::parse("").is_err());
        let path = crate::workspace::root().join("tests/protocols/expected.txt");
        Expected::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    }
}
