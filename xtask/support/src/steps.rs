//! A list of named steps with times and counts. All steps run even when one fails.

use std::panic::resume_unwind;
use std::process::Command;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The result that a step reports: how many checks passed and failed.
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

/// The end of a step: its counts, and a text about each failure for the end of the output.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The numbers of checks that passed and failed.
    pub count: Count,
    /// A text for each failure; none if the step's own output already contains it.
    pub failures: Vec<String>,
}

impl Outcome {
    /// Adds the result of another command of the same step.
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
pub struct Steps {
    start: Instant,
    done: Vec<(String, Duration, Outcome)>,
}

impl Default for Steps {
    fn default() -> Self {
        Self { start: Instant::now(), done: Vec::new() }
    }
}

/// A step that runs while others do.
#[must_use = "its result counts when it is joined (`Steps::join`)"]
pub struct Beside {
    name: String,
    thread: JoinHandle<(Duration, Result<Outcome>)>,
}

impl Steps {
    /// Begins a step on a thread of its own. It is for work that needs no whole machine, and whose output is short.
    pub fn begin<O: Into<Outcome>>(
        &self,
        name: &str,
        step: impl FnOnce() -> Result<O> + Send + 'static,
    ) -> Beside {
        println!("\n== {name}, beside what follows");
        let thread = thread::spawn(move || {
            let start = Instant::now();
            let outcome = step().map(O::into);
            (start.elapsed(), outcome)
        });
        Beside { name: name.to_owned(), thread }
    }

    /// Waits for the end of a step that runs beside others.
    pub fn join(&mut self, beside: Beside) {
        println!("\n== {}", beside.name);
        let (duration, outcome) = beside.thread.join().unwrap_or_else(|panic| resume_unwind(panic));
        self.add(beside.name, duration, outcome);
    }

    /// Runs groups of steps beside each other: those of a group one after the other.
    pub fn together(&mut self, groups: &[&(dyn Fn(&mut Steps) + Sync)]) {
        thread::scope(|scope| {
            let run = |group: &'_ (dyn Fn(&mut Steps) + Sync)| {
                let mut steps = Steps::default();
                group(&mut steps);
                steps.done
            };
            let threads: Vec<_> =
                groups.iter().map(|group| scope.spawn(move || run(*group))).collect();
            for thread in threads {
                self.done.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
        });
    }

    fn add(&mut self, name: String, duration: Duration, outcome: Result<Outcome>) {
        let outcome = outcome.unwrap_or_else(|error| {
            println!("error: {error:#}");
            Outcome { count: Count::one(false), failures: vec![format!("{error:#}")] }
        });
        self.done.push((name, duration, outcome));
    }

    /// Runs a step. An error is one failed check and is printed.
    pub fn run<O: Into<Outcome>>(&mut self, name: &str, step: impl FnOnce() -> Result<O>) {
        println!("\n== {name}");
        let start = Instant::now();
        let outcome = step().map(O::into);
        self.add(name.to_owned(), start.elapsed(), outcome);
    }

    /// Prints a line for each failure and `N passed, N failed`. Returns whether nothing failed.
    ///
    /// The failures are repeated here, since a reader of long output starts at its end.
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
        println!("{:<58} {:>8.1}", "all", self.start.elapsed().as_secs_f64());
        println!("{} passed, {} failed", total.passed, total.failed);
        total.failed == 0
    }
}

/// A command that is one check.
pub fn check(command: &mut Command) -> Result<Outcome> {
    let status = command.status().with_context(|| format!("starting {command:?}"))?;
    let mut outcome = Outcome::from(Count::one(status.success()));
    if !status.success() {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        outcome.failures.push(format!("{}: {status}", words.join(" ")));
    }
    Ok(outcome)
}
