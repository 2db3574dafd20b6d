//! `cargo xtask lab density --bare`: what workers without any package take, on each CPython of the machine.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use serde::Deserialize;

use super::Arguments;
use crate::comparisons::{compared, program};
use crate::plot::number_text;
use crate::pythons::Pythons;
use crate::venv::Venv;
use crate::{compare, measurements, section, workspace};

/// A line of the file that `compare bare` writes.
#[derive(Debug, Clone, Default, Deserialize)]
struct Row {
    machine: String,
    python: String,
    contender: String,
    workers: usize,
    first_mib: f64,
    further_mib: f64,
    start_ms: f64,
}

/// Measures, and writes the figures to a file.
pub fn measure(arguments: &Arguments, csv: &Path) -> Result<()> {
    // In cargo's target folder, which is on a disk.
    let settle_in = workspace::target()?.join("bare");
    // Without the modules that the machine's own Python imports at its start (.pth files).
    let venvs = Pythons::of_machine(None)
        .all()
        .iter()
        .map(|python| Venv::open(python, &settle_in.join(format!("cp3{}", python.minor)), false))
        .collect::<Result<Vec<_>>>()?;
    let python = |venv: &Venv| venv.root().join("bin/python").to_string_lossy().into_owned();
    let pythons: Vec<_> = venvs.iter().map(python).collect();
    let mut command = Command::new(program()?);
    command.arg("bare").arg("--python").arg(pythons.join(","));
    command.arg("--worker").arg(compare::scripts().join("bare.py"));
    command.arg("--settle-in").arg(settle_in).arg("--csv").arg(csv);
    compared(command.args(&arguments.options))
}

/// Writes the page's table from the figures of a file.
pub fn write(page: &Path, csv: &Path) -> Result<()> {
    let rows = measurements::read(csv)?;
    section::write(page, "density --bare", |_| text(&rows))
}

fn text(rows: &[Row]) -> String {
    let (machine, workers) = rows.first().map_or(("", 0), |row| (&row.machine, row.workers));
    let mut text = format!(
        "{workers} workers of each kind, measured on {machine}.\n\n\
         | CPython | workers | MiB of the first | of a further one | ms until a further one has worked |\n\
         |---|---|---:|---:|---:|\n"
    );
    for Row { python, contender, first_mib, further_mib, start_ms, .. } in rows {
        let [first, further, start] =
            [first_mib, further_mib, start_ms].map(|value| number_text(*value));
        text.push_str(&format!("| {python} | {contender} | {first} | {further} | {start} |\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_page_has_the_table_of_the_measurements_beside_it() {
        let docs = workspace::root().join("docs");
        let rows: Vec<Row> =
            measurements::read(&docs.join("performance/bare.csv")).expect("measurements");
        let page = fs::read_to_string(docs.join("performance.md")).expect("the page");
        let made = section::replaced(&page, "density --bare", |_| text(&rows)).expect("its marks");
        assert!(
            page == made,
            "`cargo xtask lab density --bare --from docs/performance/bare.csv --page` writes it"
        );
    }
}
