//! The measurements, as docs/performance.md shows them: tables, plots, and the measurements themselves beside them.

use std::path::Path;

use anyhow::Result;
use serde::Deserialize;

use crate::plot::{Lines, number_text};
use crate::{measurements, section};

/// At most this many times the latency without a limit, for a number of workers that is served. `SLOWER` in
/// benches/src/bin/compare/density.
const SLOWER: f64 = 1.2;

/// A line of the file that `compare density` writes.
#[derive(Debug, Clone, Default, Deserialize)]
struct Row {
    machine: String,
    limit_gib: f64,
    contender: String,
    workers: usize,
    start_cpu_seconds: f64,
    anonymous_mib: f64,
    files_mib: f64,
    throughput: f64,
    p99_ms: f64,
    free_p99_ms: f64,
    #[serde(default)]
    warm_ms: Option<f64>,
    #[serde(default)]
    idle_ms: Option<f64>,
    wrong: usize,
    stop: String,
}

impl Row {
    fn is_served(&self) -> bool {
        self.workers > 0 && self.wrong == 0 && self.p99_ms <= SLOWER * self.free_p99_ms
    }
}

/// Writes the page's tables from the measurements of a file, and plots to the folder `performance` beside it.
pub fn write(page: &Path, csv: &Path) -> Result<()> {
    let rows = measurements::read(csv)?;
    section::write_with_files(page, "density", plots(&rows), |_| text(&rows))
}

/// The rows of each contender within each limit, in the order of the file.
fn runs(rows: &[Row]) -> Vec<&[Row]> {
    rows.chunk_by(|one, other| one.limit_gib == other.limit_gib && one.contender == other.contender)
        .collect()
}

fn text(rows: &[Row]) -> String {
    let machine = rows.first().map_or("", |row| &row.machine);
    let mut text = format!(
        "Measured on {machine}.\n\n\
         | limit | workers | served | started | MiB of the first | of a further one | page cache, MiB | start, s of a processor | calls/s | first call after idleness, ms (before) | stops because |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|---:|---|\n"
    );
    for run in runs(rows) {
        text.push_str(&line(run));
    }
    for (name, _) in plots(rows) {
        text.push_str(&format!("\n![{}](performance/{name})\n", name.trim_end_matches(".svg")));
    }
    text
}

/// A contender within a limit, as a row of the table.
fn line(run: &[Row]) -> String {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return String::new() };
    let served = run.iter().filter(|row| row.is_served()).map(|row| row.workers).max();
    // The first worker is also the process.
    let further = match last.workers - first.workers {
        0 => "-".to_owned(),
        count => number_text((last.anonymous_mib - first.anonymous_mib) / count as f64),
    };
    let middle = |of: fn(&Row) -> f64| {
        let mut values: Vec<f64> = run.iter().filter(|row| row.workers > 1).map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).map_or("-".to_owned(), |value| number_text(*value))
    };
    let idle =
        run.iter().find_map(|row| Some(format!("{:.0} ({:.0})", row.idle_ms?, row.warm_ms?)));
    format!(
        "| {} GiB | {} | {} | {} | {:.0} | {further} | {:.0} | {} | {} | {} | {} |\n",
        first.limit_gib,
        first.contender,
        served.unwrap_or_default(),
        last.workers,
        first.anonymous_mib,
        last.files_mib,
        middle(|row| row.start_cpu_seconds),
        middle(|row| row.throughput),
        idle.as_deref().unwrap_or("-"),
        last.stop
    )
}

/// For each limit: memory and latency over the number of workers.
fn plots(rows: &[Row]) -> Vec<(String, String)> {
    let mut plots = Vec::new();
    for limit in rows.chunk_by(|one, other| one.limit_gib == other.limit_gib) {
        let gib = limit[0].limit_gib;
        let series = |of: fn(&Row) -> f64| {
            let runs = runs(limit).into_iter().filter(|run| run[0].workers > 0);
            runs.map(|run| {
                let points = run.iter().map(|row| (row.workers as f64, of(row))).collect();
                (run[0].contender.as_str(), points)
            })
            .collect::<Vec<_>>()
        };
        let title = format!("Anonymous memory within {gib} GiB");
        let axes = ["workers", "MiB"];
        let memory = Lines { title: &title, axes, series: series(|row| row.anonymous_mib) };
        plots.push((format!("memory-{gib}-gib.svg"), memory.svg()));
        let title = format!("Latency within {gib} GiB");
        let axes = ["workers", "99th percentile, times that without a limit"];
        let latency =
            Lines { title: &title, axes, series: series(|row| row.p99_ms / row.free_p99_ms) };
        plots.push((format!("latency-{gib}-gib.svg"), latency.svg()));
    }
    plots
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;
    use std::fs;

    #[test]
    fn what_is_served_is_the_most_whose_latency_is_near_that_without_a_limit() {
        let row = |workers, p99_ms| Row {
            contender: "c".to_owned(),
            limit_gib: 2.0,
            workers,
            anonymous_mib: 100.0 * workers as f64,
            p99_ms,
            free_p99_ms: 10.0,
            ..Row::default()
        };
        let mut rows = vec![row(1, 10.0), row(2, 11.9), row(4, 12.1)];
        rows[2].stop = "killed".to_owned();
        let line = line(&rows);
        assert!(line.starts_with("| 2 GiB | c | 2 | 4 | 100 | 100 |"), "{line}");
        assert!(line.ends_with("| killed |\n"), "{line}");
        let plots = plots(&rows);
        let names: Vec<_> = plots.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["memory-2-gib.svg", "latency-2-gib.svg"]);
    }

    #[test]
    fn the_page_has_the_tables_and_plots_of_the_measurements_beside_it() {
        let docs = workspace::root().join("docs");
        let rows: Vec<Row> =
            measurements::read(&docs.join("performance/density.csv")).expect("measurements");
        let page = fs::read_to_string(docs.join("performance.md")).expect("the page");
        let made = section::replaced(&page, "density", |_| text(&rows)).expect("its marks");
        assert!(
            page == made,
            "`cargo xtask lab density --from docs/performance/density.csv --page` writes it"
        );
        for (name, plot) in plots(&rows) {
            let path = docs.join("performance").join(&name);
            assert!(fs::read_to_string(path).is_ok_and(|text| text == plot), "{name}");
        }
    }
}
