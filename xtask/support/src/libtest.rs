//! Reads the output of `cargo test` a line at a time. Decides which lines to show at once, and which only if a test
//! fails.
//!
//! Tests print a lot: expected tracebacks, messages of refused loads. If all tests of a test program pass, only its
//! result is shown. If one fails, all of the program's output is shown, and the summary repeats its failures.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::effort;
use crate::steps::{Count, Outcome};

/// First words of the indented lines that cargo prints while it builds and before a test program.
const VERBS: [&str; 5] = ["Blocking", "Compiling", "Doc-tests", "Finished", "Running"];

/// The end of libtest's line about a test that may hang.
const SLOW: &str = "has been running for over 60 seconds";

/// Seconds of processors that a reader of the output should know of.
const MUCH: f64 = 10.0;

/// The number of lines of a dead program that the summary repeats.
const LAST_WORDS: usize = 40;

/// A command that runs tests of cargo's, counted by its own result lines.
pub fn counted(command: &mut Command) -> Result<Outcome> {
    let outcome = ran(Output::default(), command)?;
    ensure!(outcome.count.passed + outcome.count.failed > 0, "no test ran");
    Ok(outcome)
}

/// One program of tests, likewise. It may have no test. Its lines begin with its title, as others may run beside it.
pub fn counted_as(title: &str, command: &mut Command) -> Result<Outcome> {
    let prefix = format!("{title}: ");
    ran(Output { title: title.to_owned(), prefix, ..Output::default() }, command)
}

fn ran(mut output: Output, command: &mut Command) -> Result<Outcome> {
    let (reader, writer) = std::io::pipe()?;
    command.stdout(writer.try_clone()?).stderr(writer);
    let child = command.spawn().with_context(|| format!("starting {command:?}"))?;
    // Closes the command's own ends of the pipe; they would keep it open.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    for line in BufReader::new(reader).split(b'\n') {
        let line = line.context("reading the tests' output")?;
        print!("{}", output.line(&String::from_utf8_lossy(&line)));
    }
    let (status, seconds) = effort::ended(child)?;
    print!("{}", output.spent(seconds));
    if !status.success() {
        print!("{}", output.line(&format!("it has ended with {status}")));
    }
    let (rest, outcome) = output.end(status.success());
    print!("{rest}");
    Ok(outcome)
}

/// The output so far.
#[derive(Debug, Default)]
struct Output {
    count: Count,
    failures: Vec<String>,
    /// The line that began the running test program; empty before the first.
    title: String,
    /// The begin of what is shown of its results.
    prefix: String,
    /// Its lines that have not been shown.
    kept: Vec<String>,
    /// Whether the program has printed a result. Documentation tests print several.
    has_result: bool,
}

impl Output {
    /// Takes a line, and returns the text to show now.
    fn line(&mut self, line: &str) -> String {
        let verb = line.starts_with(' ').then(|| line.split_whitespace().next()).flatten();
        if verb.is_some_and(|verb| VERBS.contains(&verb)) {
            let mut shown = String::new();
            if matches!(verb, Some("Running" | "Doc-tests")) {
                shown = self.died();
                self.title = line.trim().to_owned();
                self.kept.clear();
                self.has_result = false;
            }
            return shown + line + "\n";
        }
        let Some(result) = line.strip_prefix("test result: ") else {
            if line.ends_with(SLOW) {
                return format!("{line}\n");
            }
            self.kept.push(line.to_owned());
            return String::new();
        };
        self.has_result = true;
        self.count.passed += number(result, "passed");
        self.count.failed += number(result, "failed");
        let kept = std::mem::take(&mut self.kept);
        let line = format!("{}{line}\n", self.prefix);
        if result.starts_with("ok.") {
            return line;
        }
        let failures = kept.iter().skip_while(|line| *line != "failures:");
        self.failures.push(format!("{}\n{}", self.title, joined(failures)));
        joined(kept.iter()) + &line
    }

    /// A line about the time that a program took, if it is long.
    fn spent(&self, seconds: f64) -> String {
        if seconds < MUCH {
            return String::new();
        }
        format!("{}{seconds:.0} s of processors\n", self.prefix)
    }

    /// Ends the output. The parameter is cargo's success; the result is the text that is still to be shown.
    fn end(mut self, success: bool) -> (String, Outcome) {
        let mut shown = self.died();
        if !success && self.count.failed == 0 {
            // For example code that does not compile.
            shown = joined(self.kept.iter());
            self.failures.push(shown.clone());
            self.count.failed = 1;
        }
        (shown, Outcome { count: self.count, failures: self.failures })
    }

    /// Counts a program that has ended without a result as a failure, and returns all of its output.
    fn died(&mut self) -> String {
        if self.title.is_empty() || self.has_result {
            return String::new();
        }
        self.count.failed += 1;
        let last = &self.kept[self.kept.len().saturating_sub(LAST_WORDS)..];
        self.failures.push(format!("{}: no result\n{}", self.title, joined(last.iter())));
        joined(self.kept.iter())
    }
}

fn joined<'a>(lines: impl Iterator<Item = &'a String>) -> String {
    lines.map(|line| format!("{line}\n")).collect()
}

/// The number before `what` in a result line.
fn number(result: &str, what: &str) -> usize {
    let words: Vec<&str> = result.split([' ', ';', '.']).filter(|word| !word.is_empty()).collect();
    let pair = words.windows(2).find(|pair| pair[1] == what);
    pair.and_then(|pair| pair[0].parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text shown for some output, and the counts of it.
    fn shown(output: &str, success: bool) -> (String, Outcome) {
        let mut parsed = Output::default();
        let mut shown: String = output.lines().map(|line| parsed.line(line)).collect();
        let (rest, outcome) = parsed.end(success);
        shown.push_str(&rest);
        (shown, outcome)
    }

    const GOOD: &str = "   Compiling one v0.1.0\n     \
        Running tests/one.rs (target/one)\n\nrunning 2 tests\nTraceback (most recent call last):\n\
        test one ... ok\n\n\
        test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
    const BAD: &str = "     Running tests/two.rs (target/two)\n\nrunning 5 tests\nnoise\ntest a ... FAILED\n\n\
        failures:\n\n---- a stdout ----\nit went wrong\n\nfailures:\n    a\n\n\
        test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
        error: test failed, to rerun pass `--test two`\n";
    const DEAD: &str = "     Running tests/three.rs (target/three)\n\nrunning 1 test\nlast words\n\
        error: test failed\n  process didn't exit successfully: (signal: 11, SIGSEGV)\n";

    #[test]
    fn counts_add_up() {
        let (_, outcome) = shown(&[GOOD, BAD, DEAD, GOOD].concat(), false);
        assert_eq!(outcome.count, Count { passed: 27, failed: 3 });
        assert_eq!(outcome.failures.len(), 2);
    }

    #[test]
    fn of_what_passes_only_the_result_is_shown() {
        let (shown, outcome) = shown(GOOD, true);
        let lines: Vec<&str> =
            shown.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
        assert_eq!(lines, ["Compiling", "Running", "test"]);
        assert_eq!(outcome, Count { passed: 12, failed: 0 }.into());
    }

    #[test]
    fn of_what_fails_everything_is_shown_and_the_failures_are_kept() {
        let (shown, outcome) = shown(&[BAD, GOOD].concat(), false);
        assert!(shown.contains("noise\n") && shown.contains("it went wrong\n"));
        let [failure] = &outcome.failures[..] else { panic!("{outcome:?}") };
        assert!(failure.starts_with("Running tests/two.rs (target/two)\nfailures:\n"));
        assert!(failure.contains("it went wrong\n") && !failure.contains("noise"));
    }

    #[test]
    fn what_dies_without_a_result_is_a_failure() {
        for output in [DEAD.to_owned(), [DEAD, GOOD].concat()] {
            let (shown, outcome) = shown(&output, false);
            assert!(shown.contains("last words\n"));
            assert_eq!(outcome.count.failed, 1);
            assert!(outcome.failures[0].contains("signal: 11"));
        }
    }

    #[test]
    fn what_does_not_compile_is_a_failure_and_is_shown() {
        let (shown, outcome) = shown("   Compiling one v0.1.0\nerror[E0425]: cannot find\n", false);
        assert!(shown.ends_with("error[E0425]: cannot find\n"));
        assert_eq!(outcome.count.failed, 1);
        assert_eq!(outcome.failures, ["error[E0425]: cannot find\n"]);
    }
}
