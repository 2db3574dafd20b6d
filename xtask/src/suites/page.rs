//! The figures of whole suites, as tables of docs/faithful.md.
//!
//! A run replaces what the page says of its suite and its Python, and leaves the rest as it is.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::Total;
use super::verdict::Difference;

/// The lines between which the page has the figures.
const MARKS: [&str; 2] =
    ["<!-- cargo xtask suites: begin -->\n", "<!-- cargo xtask suites: end -->\n"];

const HEAD: &str = "| suite | tests | pass in plain python | do not pass in copies, twice | once | processes that died |\n\
    |---|---:|---:|---:|---:|---:|\n";

/// What a run of a whole suite has found.
pub struct Found<'a> {
    /// The suite and its Python: `cpython, CPython 3.14`.
    pub title: String,
    pub total: &'a Total,
    pub differences: &'a [Difference],
}

/// Writes what a run has found to the page.
pub fn write(page: &Path, found: &Found<'_>) -> Result<()> {
    let text = fs::read_to_string(page).with_context(|| format!("reading {}", page.display()))?;
    let text = replaced(&text, found).with_context(|| page.display().to_string())?;
    fs::write(page, text).with_context(|| format!("writing {}", page.display()))
}

fn replaced(page: &str, found: &Found<'_>) -> Result<String> {
    let [begin, end] = MARKS;
    let (before, rest) =
        page.split_once(begin).with_context(|| format!("the page has no line {begin}"))?;
    let (old, after) =
        rest.split_once(end).with_context(|| format!("the page has no line {end}"))?;
    let Found { title, total, differences } = found;
    let rows = [total.row(title)];
    let lines: Vec<String> = differences.iter().map(|one| line(title, one)).collect();
    let rows = merged(old, &format!("| {title} |"), &rows);
    let lines = merged(old, &format!("- {title}: "), &lines);
    let lines = if lines.is_empty() { lines } else { format!("\n{lines}") };
    Ok(format!("{before}{begin}{HEAD}{rows}{lines}{end}{after}"))
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
        let [begin, end] = MARKS;
        let page = format!("before\n{begin}{end}after\n");
        let differs = |test: &str, again| Difference {
            test: test.to_owned(),
            what: "copy 1: failed:\nwhy".to_owned(),
            again,
        };
        let run = |page: &str, title: &str, tests, differences: &[Difference]| {
            let total = Total { tests, passing: tests, ..Total::default() };
            let title = title.to_owned();
            replaced(page, &Found { title, total: &total, differences }).unwrap()
        };
        let page = run(&page, "numpy, CPython 3.12", 5, &[differs("a", true)]);
        let page = run(&page, "cpython, CPython 3.12", 9, &[]);
        let page = run(&page, "numpy, CPython 3.12", 7, &[differs("b", false)]);
        let rows = "| cpython, CPython 3.12 | 9 | 9 | 0 | 0 | 0 |\n| numpy, CPython 3.12 | 7 | 7 | 0 | 0 | 0 |\n";
        let line = "- numpy, CPython 3.12: `b`, once: copy 1: failed: why\n";
        assert_eq!(page, format!("before\n{begin}{HEAD}{rows}\n{line}{end}after\n"));
        let nothing = Found { title: String::new(), total: &Total::default(), differences: &[] };
        assert!(replaced("no marks", &nothing).is_err());
    }
}
