//! A list of named steps, timed and counted, of which all run even when one fails.

use std::time::{Duration, Instant};

/// What a step reports: how many checks passed and failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// Checks that passed.
    pub passed: usize,
    /// Checks that failed.
    pub failed: usize,
}

impl Count {
    /// A single check.
    pub fn one(passed: bool) -> Self {
        Self { passed: passed.into(), failed: (!passed).into() }
    }
}

/// How a step ended: its counts, and what failed in the words that are to be read last.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What passed and failed.
    pub count: Count,
    /// A text for each failure; none where the step's own output has said it.
    pub failures: Vec<String>,
}

impl Outcome {
    /// Adds what another command of the same step came to.
    pub fn add(&mut self, other: Outcome) {
        self.count.passed += other.count.passed;
        self.count.failed += other.count.failed;
        self.failures.extend(other.failures);
    }
}

impl From<Count> for Outcome {
    fn from(count: Count) -> Self {
        Self { count, failures: Vec::new() }
    }
}

/// The steps that ran so far.
#[derive(Default)]
pub struct Steps {
    done: Vec<(String, Duration, Outcome)>,
}

impl Steps {
    /// Runs a step. An error is one failed check and is printed.
    pub fn run<O: Into<Outcome>>(&mut self, name: &str, step: impl FnOnce() -> anyhow::Result<O>) {
        println!("\n== {name}");
        let start = Instant::now();
        let outcome = step().map(O::into).unwrap_or_else(|error| {
            println!("error: {error:#}");
            Outcome { count: Count::one(false), failures: vec![format!("{error:#}")] }
        });
        self.done.push((name.to_owned(), start.elapsed(), outcome));
    }

    /// Prints what failed, a line for each step, and `N passed, N failed`; says whether nothing failed.
    ///
    /// What failed is repeated here, since a long output is read from its end.
    pub fn summary(&self) -> bool {
        for (name, _, Outcome { count, failures }) in &self.done {
            if count.failed != 0 {
                println!("\n== failed: {name}");
                failures.iter().for_each(|failure| println!("{}", failure.trim_end()));
            }
        }
        println!("\n{:<58} {:>8} {:>8} {:>8}", "step", "seconds", "passed", "failed");
        let mut total = Count::default();
        for (name, duration, Outcome { count, .. }) in &self.done {
            println!(
                "{name:<58} {:>8.1} {:>8} {:>8}",
                duration.as_secs_f64(),
                count.passed,
                count.failed
            );
            total.passed += count.passed;
            total.failed += count.failed;
        }
        let duration: Duration = self.done.iter().map(|(_, duration, _)| *duration).sum();
        println!("{:<58} {:>8.1}", "all", duration.as_secs_f64());
        println!("{} passed, {} failed", total.passed, total.failed);
        total.failed == 0
    }
}
