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

/// The steps that ran so far.
#[derive(Default)]
pub struct Steps {
    done: Vec<(String, Duration, Count)>,
}

impl Steps {
    /// Runs a step. An error is one failed check and is printed.
    pub fn run(&mut self, name: &str, step: impl FnOnce() -> anyhow::Result<Count>) {
        println!("\n== {name}");
        let start = Instant::now();
        let count = step().unwrap_or_else(|error| {
            println!("error: {error:#}");
            Count::one(false)
        });
        self.done.push((name.to_owned(), start.elapsed(), count));
    }

    /// Prints a line for each step and ends with `N passed, N failed`; says whether nothing failed.
    pub fn summary(&self) -> bool {
        println!("\n{:<58} {:>8} {:>8} {:>8}", "step", "seconds", "passed", "failed");
        let mut total = Count::default();
        for (name, duration, count) in &self.done {
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

/// Adds up the `test result:` lines of libtest's output.
pub fn libtest(output: &str) -> Count {
    let number = |line: &str, what: &str| -> usize {
        let words: Vec<&str> =
            line.split([' ', ';', '.']).filter(|word| !word.is_empty()).collect();
        words
            .windows(2)
            .find(|pair| pair[1] == what)
            .and_then(|pair| pair[0].parse().ok())
            .unwrap_or(0)
    };
    output.lines().filter(|line| line.starts_with("test result:")).fold(
        Count::default(),
        |total, line| Count {
            passed: total.passed + number(line, "passed"),
            failed: total.failed + number(line, "failed"),
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libtest_counts_add_up() {
        let output = "running 2 tests\n\
                      test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
                      test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
        assert_eq!(libtest(output), Count { passed: 15, failed: 2 });
    }
}
