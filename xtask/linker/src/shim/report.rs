//! The table of results as Markdown.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The result of one test.
pub(super) enum Row {
    NotApplicable { reason: String },
    Passed,
    Failed { how: String },
}

/// Why tests fail, written by a person after an investigation. Each line has the test's name and the cause.
const CAUSES: &str = include_str!("causes.txt");

/// The text above the table.
const PREFACE: &str = include_str!("preface.md");

/// The text below the table, written by hand.
const EPILOGUE: &str = include_str!("others.md");

/// Prints the summary, and writes the table if a path is given. Returns the number of failures without a known cause.
pub(super) fn write(
    rows: &BTreeMap<(String, String), Row>,
    table: Option<&Path>,
) -> anyhow::Result<usize> {
    let causes: BTreeMap<&str, &str> = CAUSES
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .collect();
    let count = |wanted: fn(&Row) -> bool| rows.values().filter(|row| wanted(row)).count();
    let passed = count(|row| matches!(row, Row::Passed));
    let failed = count(|row| matches!(row, Row::Failed { .. }));
    let applied = passed + failed;
    let mut text = PREFACE.to_owned();
    writeln!(
        text,
        "{applied} tests apply, {passed} pass ({:.1} %), {failed} fail; {} do not apply.\n",
        100.0 * passed as f64 / applied.max(1) as f64,
        rows.len() - applied,
    )?;
    writeln!(text, "| directory | apply | pass |\n|---|---:|---:|")?;
    let mut by_directory: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    for ((directory, _), row) in rows {
        let counts = by_directory.entry(directory).or_default();
        counts[0] += usize::from(!matches!(row, Row::NotApplicable { .. }));
        counts[1] += usize::from(matches!(row, Row::Passed));
    }
    for (directory, [applied, passed]) in by_directory {
        writeln!(text, "| {directory} | {applied} | {passed} |")?;
    }
    writeln!(text)?;
    let mut unexplained = 0;
    writeln!(text, "| test | result | cause |\n|---|---|---|")?;
    for ((directory, name), row) in rows {
        let (result, cause) = match row {
            Row::Passed => ("passes", String::new()),
            Row::Failed { how } => {
                let cause = causes.get(&**name);
                unexplained += usize::from(cause.is_none());
                ("**fails**", cause.map_or_else(|| how.clone(), |cause| (*cause).to_owned()))
            }
            Row::NotApplicable { .. } => continue,
        };
        writeln!(text, "| {directory}/{name} | {result} | {} |", cell(&cause))?;
    }
    writeln!(text, "\nTests that call `dl*` functions and do not apply:\n")?;
    writeln!(text, "| test | reason |\n|---|---|")?;
    for ((directory, name), row) in rows {
        if let Row::NotApplicable { reason } = row {
            writeln!(text, "| {directory}/{name} | {} |", cell(reason))?;
        }
    }
    match table {
        Some(path) => std::fs::write(path, text + EPILOGUE)?,
        None => print!("{}", text.trim_start_matches(PREFACE)),
    }
    println!("{applied} apply, {passed} pass, {failed} fail, {unexplained} of them unexplained");
    Ok(unexplained)
}

/// Escapes text for a table's cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
