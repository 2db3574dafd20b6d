//! The table of results as Markdown.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::bail;

use super::inputs::Source;
use super::{Outcome, Refusal};

/// The text above the table.
const PREFACE: &str = include_str!("preface.md");

/// Prints the table and writes the page if a path is given. Returns an error if a word differs.
pub(super) fn write(rows: &[(Source, Vec<Outcome>)], page: Option<&Path>) -> anyhow::Result<()> {
    let mut table = String::from(
        "| source | version | objects | words | interposed | unified | by design | refused | differences |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    let mut total = [0usize; 7];
    let mut differences = Vec::new();
    // For each source and reason: the first object, and the number of further ones.
    let mut refusals: BTreeMap<(&str, String), (String, usize)> = BTreeMap::new();
    for (source, outcomes) in rows {
        let count = |of: fn(&Outcome) -> usize| -> usize { outcomes.iter().map(of).sum::<usize>() };
        let line = [
            outcomes.len(),
            count(|outcome| if outcome.refused.is_some() { 0 } else { outcome.words }),
            count(|outcome| outcome.interposed),
            count(|outcome| outcome.unified),
            count(|outcome| outcome.designed),
            count(|outcome| usize::from(outcome.refused.is_some())),
            count(|outcome| outcome.differences.len()),
        ];
        total.iter_mut().zip(line).for_each(|(sum, value)| *sum += value);
        row(&mut table, &source.name, &source.version, &line)?;
        for (object, outcome) in source.objects.iter().zip(outcomes) {
            let name = object.file_name().unwrap_or_default().to_string_lossy();
            differences.extend(
                outcome.differences.iter().map(|text| format!("{} {name}: {text}", source.name)),
            );
            if let Some(Refusal { glibc, ours }) = &outcome.refused {
                let says = |answer: &Option<String>| answer.clone().unwrap_or("opens it".into());
                let (glibc, ours) = (says(glibc), says(ours));
                let first = || (format!("`{name}`: glibc: {glibc}; this loader: {ours}"), 0);
                let reason = ours.split_once(": refused: ").map_or(glibc.as_str(), |(_, why)| why);
                let entry = refusals.entry((&source.name, reason.to_owned()));
                entry.and_modify(|(_, more)| *more += 1).or_insert_with(first);
            }
        }
    }
    row(&mut table, "**total**", "", &total)?;
    let mut text = table;
    if !refusals.is_empty() {
        writeln!(text, "\nNot compared:\n")?;
        for ((source, _), (first, more)) in &refusals {
            let more = if *more > 0 { format!(" ({more} more so)") } else { String::new() };
            writeln!(text, "- {source} {first}{more}")?;
        }
    }
    print!("{text}");
    if let Some(path) = page {
        std::fs::write(path, format!("{PREFACE}{text}"))?;
    }
    differences.iter().take(40).for_each(|difference| eprintln!("{difference}"));
    if !differences.is_empty() {
        bail!("{} words differ", differences.len());
    }
    Ok(())
}

fn row(
    table: &mut String,
    name: &str,
    version: &str,
    values: &[usize; 7],
) -> Result<(), std::fmt::Error> {
    let cells: Vec<String> = values.iter().map(usize::to_string).collect();
    writeln!(table, "| {name} | {version} | {} |", cells.join(" | "))
}
