//! The figures of whole suites, as tables of docs/faithful.md.
//!
//! A run replaces the page's row for its suite and its Python, and leaves the rest as it is.

use std::path::Path;

use anyhow::Result;

use super::Total;
use super::verdict::Difference;
use crate::section;

const HEAD: &str = "| suite | tests | pass in plain python | do not pass in copies, twice | once | processes that died |\n\
    |---|---:|---:|---:|---:|---:|\n";

/// The result of a run of a whole suite.
pub struct Found<'a> {
    /// The suite and its Python: `cpython, CPython 3.14`.
    pub title: String,
    pub total: &'a Total,
    pub differences: &'a [Difference],
}

/// Writes a run's findings to the page.
pub fn write(page: &Path, found: &Found<'_>) -> Result<()> {
    section::write(page, "suites", |old| changed(old, found))
}

fn changed(old: &str, found: &Found<'_>) -> String {
    let Found { title, total, differences } = found;
    let lines: Vec<String> = differences.iter().map(|one| line(title, one)).collect();
    let rows = merged(old, &format!("| {title} |"), &[total.row(title)]);
    let lines = merged(old, &format!("- {title}: "), &lines);
    let lines = if lines.is_empty() { lines } else { format!("\n{lines}") };
    format!("{HEAD}{rows}{lines}")
}

/// The page's lines of the same kind, in order, with those that begin with `own` replaced.
fn merged(old: &str, own: &str, new: &[String]) -> String {
    let kind = &own[..2];
    let kept = old.lines().filter(|line| line.starts_with(kind) && !line.starts_with(own));
    let kept = kept.filter(|line| !HEAD.contains(line)).map(str::to_owned);
    let mut lines: Vec<String> = kept.chain(new.iter().cloned()).collect();
    lines.sort();
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// A test that differs, in a line.
fn line(title: &str, difference: &Difference) -> String {
    let often = if difference.again { "twice" } else { "once" };
    let what = difference.what.replace(['\n', '`'], " ");
    format!("- {title}: `{}`, {often}: {what}", difference.test)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_replaces_its_own_figures_and_leaves_the_others() {
        let differs = |test: &str, again| Difference {
            test: test.to_owned(),
            what: "copy 1: failed:\nwhy".to_owned(),
            again,
        };
        let run = |page: &str, title: &str, tests, differences: &[Difference]| {
            let total = Total { tests, passing: tests, ..Total::default() };
            changed(page, &Found { title: title.to_owned(), total: &total, differences })
        };
        let page = run("", "numpy, CPython 3.12", 5, &[differs("a", true)]);
        let page = run(&page, "cpython, CPython 3.12", 9, &[]);
        let page = run(&page, "numpy, CPython 3.12", 7, &[differs("b", false)]);
        let rows = "| cpython, CPython 3.12 | 9 | 9 | 0 | 0 | 0 |\n| numpy, CPython 3.12 | 7 | 7 | 0 | 0 | 0 |\n";
        let line = "- numpy, CPython 3.12: `b`, once: copy 1: failed: why\n";
        assert_eq!(page, format!("{HEAD}{rows}\n{line}"));
    }
}
