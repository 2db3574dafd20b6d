//! Tests in Python, test by test: in copy 2 of 3 and in plain python, at once.
//!
//! The driver of `cargo xtask lab suites` runs them, tests/suites/run.py. A test that passes plainly has to pass in the copy. Each shard is a
//! process on each side. When one dies, or is late, the test that ran is left out and the shard runs again on that side.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::thread;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::TARGET;
use super::system::{MINOR, System};
use crate::debian;
use crate::steps::{Count, Outcome};

/// Seconds of a process.
const PATIENCE: u32 = 3000;

/// How often a side of a shard runs at most.
const ATTEMPTS: usize = 6;

/// A suite.
pub(super) struct Suite<'a> {
    /// The name of its folder.
    pub name: &'a str,
    /// The driver's arguments before the names.
    pub options: String,
    /// The environment's variables, as a shell takes them.
    pub variables: String,
    /// The driver's names, one line for each shard.
    pub shards: Vec<String>,
    /// Tests that do not run, with reasons.
    pub left: &'a [(&'a str, &'a str)],
}

/// The two sides.
#[derive(Clone, Copy)]
enum Side {
    Plain,
    Copy,
}

/// How the tests of a side ended: the outcome and the reason.
#[derive(Default)]
struct Ended {
    tests: BTreeMap<String, (String, String)>,
    /// Those that ran when a process died or was late.
    cut_off: BTreeSet<String>,
}

impl Suite<'_> {
    pub(super) fn run(&self, system: &System) -> Result<Outcome> {
        super::untried::tell(self.left);
        let mut outcome = Outcome::default();
        let mut others = BTreeMap::<&str, usize>::new();
        for (number, names) in (1..).zip(&self.shards) {
            let (plain, copy) = thread::scope(|scope| {
                let plain = scope.spawn(|| self.side(system, Side::Plain, number, names));
                let copy = self.side(system, Side::Copy, number, names);
                (plain.join().expect("no panic"), copy)
            });
            let (plain, copy) = (plain?, copy?);
            let (right, wrong) = compared(&plain, &copy);
            let first = names.split(' ').next().unwrap_or_default();
            let not = plain.tests.len() - right - wrong.len();
            println!(
                "{} [{number}/{}] {first}: {right} pass on both sides, {} plainly alone, {not} do not pass plainly",
                self.name,
                self.shards.len(),
                wrong.len()
            );
            for test in &plain.cut_off {
                println!("  plain python did not get beyond {test}");
            }
            for (outcome, name) in [("skipped", "skipped"), ("failed", "failing plainly, too")] {
                let such = plain.tests.values().filter(|(found, _)| found == outcome).count();
                *others.entry(name).or_default() += such;
            }
            outcome.add(Outcome {
                count: Count { passed: right, failed: wrong.len() },
                failures: wrong,
            });
        }
        for (name, count) in others {
            println!("{}: {count} {name}", self.name);
        }
        ensure!(outcome.count.passed > 0, "no test passes plainly");
        Ok(outcome)
    }

    /// Runs it in plain python alone, where it has to pass.
    pub(super) fn plainly(&self, system: &System) -> Result<Outcome> {
        super::untried::tell(self.left);
        let mut outcome = Outcome::default();
        for (number, names) in (1..).zip(&self.shards) {
            let ended = self.side(system, Side::Plain, number, names)?;
            let running = ended.cut_off.iter().map(|test| format!("{test}: the process ended"));
            outcome.failures.extend(running);
            for (test, (how, why)) in &ended.tests {
                match &**how {
                    "passed" => outcome.count.passed += 1,
                    "skipped" => println!("{test} is skipped: {why}"),
                    _ => outcome.failures.push(format!("{test}: {how}: {why}")),
                }
            }
        }
        outcome.count.failed = outcome.failures.len();
        ensure!(outcome.count.passed + outcome.count.failed > 0, "no test ran");
        Ok(outcome)
    }

    /// One side of a shard.
    fn side(&self, system: &System, side: Side, number: usize, names: &str) -> Result<Ended> {
        let mut leave: BTreeSet<String> =
            self.left.iter().map(|(test, _)| (*test).to_owned()).collect();
        let mut ended = Ended::default();
        for _ in 0..ATTEMPTS {
            let inside = format!("/srv/suites/{}/{number}-{}", self.name, side.name());
            let folder = system.inside(&inside);
            debian::remove(&folder)?;
            fs::create_dir_all(folder.join("work"))
                .with_context(|| format!("making {}", folder.display()))?;
            let list: String = leave.iter().map(|test| format!("{test}\n")).collect();
            fs::write(folder.join("leave"), list).context("writing a list of tests")?;
            let line = format!(
                "cd {inside}/work && {} OMP_NUM_THREADS=1 HYDROZOA_COPY=2 timeout -k 10 {PATIENCE} {} \
                 /src/tests/suites/run.py {} --folder {inside} --leave {inside}/leave {names} >{inside}/log 2>&1",
                self.variables,
                side.program(),
                self.options
            );
            // Its report says how it ended.
            system.command(&line).status().context("starting unshare")?;
            let Some(running) = ended.read(&folder.join("copy-2.jsonl"))? else { break };
            println!("  {} does not get beyond {running:?}", side.name());
            leave.extend(ended.tests.keys().cloned());
            leave.insert(running.clone());
            ensure!(
                ended.cut_off.insert(running),
                "{} ends outside of its tests",
                folder.join("log").display()
            );
        }
        Ok(ended)
    }
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Copy => "copy",
        }
    }

    fn program(self) -> String {
        let python = format!("/usr/bin/python3.{MINOR}");
        match self {
            Self::Plain => python,
            Self::Copy => format!(
                "/target/{TARGET}/debug/hydrozoa python --python {python} --copies 3 --in 2 --"
            ),
        }
    }
}

impl Ended {
    /// Adds a report, and returns the test that ran at its end, unless it is whole.
    fn read(&mut self, path: &Path) -> Result<Option<String>> {
        let text = fs::read_to_string(path).unwrap_or_default();
        let mut running = Some(String::new());
        // The last line of a process that died may be half a line.
        for line in text.lines().map_while(|line| serde_json::from_str::<Value>(line).ok()) {
            let field = |name: &str| line[name].as_str().map(str::to_owned);
            if let Some(test) = field("start") {
                running = Some(test);
            } else if let (Some(test), Some(outcome)) = (field("test"), field("outcome")) {
                self.tests.insert(test, (outcome, field("why").unwrap_or_default()));
                running = Some(String::new());
            } else if !line["end"].is_null() {
                running = None;
            }
        }
        Ok(running)
    }
}

/// How many tests pass on both sides, and a text about each that passes plainly alone.
fn compared(plain: &Ended, copy: &Ended) -> (usize, Vec<String>) {
    let mut right = 0;
    let mut wrong = Vec::new();
    for (test, (outcome, _)) in &plain.tests {
        if outcome != "passed" {
            continue;
        }
        match copy.tests.get(test) {
            Some((outcome, _)) if outcome == "passed" => right += 1,
            Some((outcome, why)) => wrong.push(format!("{test}: {outcome}: {why}")),
            None if copy.cut_off.contains(test) => {
                wrong.push(format!("{test}: the process ended"));
            }
            None => wrong.push(format!("{test}: it did not run")),
        }
    }
    (right, wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(lines: &str) -> (Ended, Option<String>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report");
        fs::write(&path, lines).unwrap();
        let mut ended = Ended::default();
        let running = ended.read(&path).unwrap();
        (ended, running)
    }

    #[test]
    fn a_test_that_passes_plainly_alone_is_named() {
        let (plain, running) = report(
            "{\"start\": \"a\"}\n{\"test\": \"a\", \"outcome\": \"passed\", \"why\": \"\"}\n\
             {\"start\": \"b\"}\n{\"test\": \"b\", \"outcome\": \"passed\", \"why\": \"\"}\n\
             {\"start\": \"c\"}\n{\"test\": \"c\", \"outcome\": \"failed\", \"why\": \"w\"}\n{\"end\": 0}\n",
        );
        assert_eq!(running, None);
        let (copy, running) = report(
            "{\"start\": \"a\"}\n{\"test\": \"a\", \"outcome\": \"passed\", \"why\": \"\"}\n{\"start\": \"b\"}\n{\"test",
        );
        assert_eq!(running.as_deref(), Some("b"));
        assert_eq!(compared(&plain, &copy), (1, vec!["b: it did not run".to_owned()]));
    }
}
