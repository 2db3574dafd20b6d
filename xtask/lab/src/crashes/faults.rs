//! Crashes of released wheels, in plain python and in an interpreter that contains its crashes.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::list::{self, Outcome, Row};
use crate::python::{self, Python};
use crate::time_limit::{self, End};
use crate::venv::Venv;
use crate::{cache, comparisons, environment, venv};

/// Seconds that a crash may take.
const LIMIT: f64 = 120.0;

/// Options of `cargo xtask lab crashes faults`.
#[derive(clap::Args, Clone)]
pub struct Arguments {
    #[command(flatten)]
    environment: environment::Arguments,
    /// Only these rows of the list
    #[arg(long, value_name = "NAME", num_args = 1..)]
    only: Vec<String>,
    /// Leave the virtual environments in the cache, and use those that an earlier run left
    #[arg(long)]
    keep: bool,
}

/// Runs each row, and prints what became of it. An error if that is not what the list says.
pub fn run(arguments: &Arguments) -> Result<()> {
    let python = python::find(arguments.environment.python.as_ref())?;
    let compare = comparisons::program()?;
    let entry = cache::CacheFolder::open(&format!("faults-cp3{}", python.minor))?;
    let rows = list::rows()?;
    let wanted = |row: &&Row| arguments.only.is_empty() || arguments.only.contains(&row.work);
    let mut different = Vec::new();
    println!("| wheel | thread | plain python | contained |\n|---|---|---|---|");
    for row in rows.iter().filter(wanted) {
        let root = entry.folder().join(&row.work);
        let found = tried(row, &python, &root, arguments.keep, &compare)?;
        let package = row.packages.first().map_or("CPython itself", String::as_str);
        println!("| {package} | {} | {} | {} |", row.thread, found.plain, found.contained);
        if !found.is_expected(row) {
            different.push(row.work.as_str());
        }
    }
    ensure!(different.is_empty(), "not as the list says: {}", different.join(", "));
    Ok(())
}

/// The outcomes of a row.
struct Found {
    plain: String,
    contained: String,
}

impl Found {
    fn is_expected(&self, row: &Row) -> bool {
        self.plain == row.signal
            && match &row.outcome {
                Outcome::Contained => self.contained.starts_with("yes: "),
                Outcome::GoesOn => self.contained.contains("the code did not crash"),
                Outcome::Refused(words) => {
                    self.contained.starts_with("no: ") && self.contained.contains(words)
                }
            }
    }
}

fn tried(row: &Row, python: &Python, root: &Path, keep: bool, compare: &Path) -> Result<Found> {
    let venv = Venv::open(python, root, keep)?;
    let packages: Vec<&str> = row.packages.iter().map(String::as_str).collect();
    if !packages.is_empty() {
        let installed = venv.install(&packages)?;
        installed.map_err(anyhow::Error::msg).with_context(|| row.work.clone())?;
    }
    let log = root.join("log");
    let mut plain = venv::python(venv.root());
    // The file is none of the modules that it imports, whatever its name is.
    let plain = time_limit::run(plain.arg("-I").arg(row.file()), LIMIT, &log)?;
    let mut contained = Command::new(compare);
    contained.arg("fault").arg("--venv").arg(venv.root()).arg(row.file());
    let end = time_limit::run(contained.env("OMP_NUM_THREADS", "1"), LIMIT, &log)?;
    let text = fs::read(&log).with_context(|| format!("reading {}", log.display()))?;
    let text = String::from_utf8_lossy(&text);
    Ok(Found { plain: plain.words(), contained: contained_words(end, &text) })
}

/// The outcome in words, by what the program has printed.
fn contained_words(end: End, text: &str) -> String {
    let mut lines = text.lines();
    if end == End::Exited(0) && lines.any(|line| line == "contained") {
        let report = lines.next().unwrap_or_default();
        let frame = lines.next().unwrap_or_default();
        let frame = frame.trim().trim_start_matches("#0 ");
        return format!("yes: {}, in {}", signal_of(report), place_of(frame));
    }
    match text.lines().find_map(|line| line.strip_prefix("not contained: ")) {
        Some(reason) => format!("no: {}, {}", end.words(), place_of(reason)),
        None => format!("{}: {}", end.words(), text.lines().last().unwrap_or_default()),
    }
}

/// The signal of a report's first line.
fn signal_of(line: &str) -> &str {
    let rest = line.trim_start_matches("hydrozoa: ");
    rest.split(' ').next().unwrap_or_default()
}

/// A frame without addresses and folders.
fn place_of(frame: &str) -> String {
    let words = frame.split(' ').filter(|word| !word.starts_with("0x") && !word.starts_with("(0x"));
    let words = words.map(|word| word.rsplit('/').next().unwrap_or(word));
    words.collect::<Vec<_>>().join(" ").trim_start_matches("in ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::{End, contained_words};

    #[test]
    fn outcomes_have_words() {
        let printed = "x\ncontained\nhydrozoa: SIGSEGV in interpreter 0 (index 0): no\n  #0 f+0x1 in /a/b.so (0x7), x\n";
        assert_eq!(contained_words(End::Exited(0), printed), "yes: SIGSEGV, in f+0x1 in b.so x");
        let died = "hydrozoa: SIGSEGV in\nnot contained: others may need what this function holds: g+0x2 in /c/d.so (0x9)\n";
        let words = contained_words(End::Signal(11), died);
        assert_eq!(words, "no: SIGSEGV, others may need what this function holds: g+0x2 in d.so");
        assert_eq!(contained_words(End::Late, "a\nb\n"), "killed at its time limit: b");
    }
}
