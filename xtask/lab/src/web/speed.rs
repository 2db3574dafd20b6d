//! Requests a second and their 99th percentile, by two workers on two processors that the client uses too.

use std::fmt::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use hydrozoa_measure::machine::Machine;
use hydrozoa_measure::samples::median;
use serde::{Deserialize, Serialize};

use super::application::Application;
use super::contender::Contender;
use super::installed::Installed;
use super::running::Running;
use super::{Rows, Selection, names};

/// Workers of each server, and processors of all.
const WORKERS: usize = 2;

/// Options of `cargo xtask lab web speed`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    selection: Selection,
    /// Connections of windows
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 16, 64])]
    connections: Vec<usize>,
    /// Seconds of a window
    #[arg(long, value_name = "S", default_value_t = 3.0)]
    seconds: f64,
    /// How often each window is measured; medians count
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
}

/// A server in one window.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Row {
    machine: String,
    application: String,
    contender: String,
    connections: usize,
    round: usize,
    requests: usize,
    throughput: f64,
    p99_ms: f64,
    /// Workers that have answered.
    reached: usize,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    if arguments.selection.from.is_none() {
        let status = std::fs::read_to_string("/proc/self/status").context("reading /proc")?;
        take(&processors(&status)?)?;
    }
    let rows = arguments.selection.rows("speed", |installed, pairs, rows| {
        for (application, contenders) in pairs {
            for round in 1..=arguments.rounds {
                for turn in 0..contenders.len() {
                    let contender = contenders[(turn + round) % contenders.len()];
                    measure(arguments, installed, (*application, contender, round), rows)?;
                }
            }
        }
        Ok(())
    })?;
    println!("{}", text(&rows));
    Ok(())
}

/// One turn of a server. It is started for it: one that was stopped meanwhile would take the time for its workers' silence.
fn measure(
    arguments: &Arguments,
    installed: &Installed,
    (application, contender, round): (Application, Contender, usize),
    rows: &mut Rows<Row>,
) -> Result<()> {
    let running = Running::start(installed, contender, application, WORKERS, None)?;
    for &connections in &arguments.connections {
        let report = running.window(connections, arguments.seconds, false)?;
        eprintln!(
            "{:<11} {:<17} round {round}, {connections} connections: {:.0} requests/s, p99 {:.2} ms",
            application.name(),
            contender.name(),
            report.throughput,
            report.p99_ms
        );
        rows.push(Row {
            machine: Machine::this().words(),
            application: application.name().to_owned(),
            contender: contender.name().to_owned(),
            connections,
            round,
            requests: report.requests,
            throughput: report.throughput,
            p99_ms: report.p99_ms,
            reached: report.workers.len(),
        })?;
    }
    running.end()
}

/// The first two processors that this process may use, of the list in /proc/PID/status (proc_pid_status(5)).
fn processors(status: &str) -> Result<String> {
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let mut found = Vec::new();
    for range in line.context("the kernel lists no processors")?.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse()?, last.parse()?);
        found.extend((first..=last).map(|number| number.to_string()));
    }
    ensure!(found.len() >= WORKERS, "the comparison needs {WORKERS} processors");
    Ok(found[..WORKERS].join(","))
}

/// Confines this thread to the processors, and with it what it starts: servers and clients.
fn take(processors: &str) -> Result<()> {
    let own = std::process::id().to_string();
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", "--pid", processors, &own]).stdout(Stdio::null());
    let status = command.status().context("starting taskset")?;
    ensure!(status.success(), "taskset failed: {status}");
    Ok(())
}

/// Medians over the rounds: requests a second, and the 99th percentile.
fn medians(
    rows: &[Row],
    application: &str,
    contender: &str,
    connections: usize,
) -> Option<[f64; 2]> {
    let of = rows.iter().filter(|row| {
        let is_same = row.application == application && row.contender == contender;
        is_same && row.connections == connections
    });
    let of: Vec<_> = of.collect();
    let middle =
        |figure: fn(&Row) -> f64| median(&of.iter().map(|row| figure(row)).collect::<Vec<_>>());
    (!of.is_empty()).then(|| [middle(|row| row.throughput), middle(|row| row.p99_ms)])
}

fn text(rows: &[Row]) -> String {
    let machine = rows.first().map_or("", |row| &row.machine);
    let mut counts: Vec<usize> = rows.iter().map(|row| row.connections).collect();
    counts.sort_unstable();
    counts.dedup();
    let cells = |of: &dyn Fn(usize) -> String| {
        counts.iter().map(|count| of(*count)).collect::<Vec<_>>().join(" | ")
    };
    let mut text = format!(
        "Requests a second, and their 99th percentile in ms, by so many connections; then hydrozoa's requests a second as multiples \
         of the server's. Medians, measured on {machine}.\n\n| application | server | {} | {} |\n|---|---{}|\n",
        cells(&|count| count.to_string()),
        cells(&|count| format!("hydrozoa, {count}")),
        "|---:".repeat(2 * counts.len())
    );
    for application in names(rows, |row| &row.application) {
        for contender in names(rows, |row| &row.contender) {
            let of = |count| medians(rows, application, contender, count);
            if counts.iter().all(|count| of(*count).is_none()) {
                continue;
            }
            let figures = cells(&|count| {
                of(count).map_or("-".to_owned(), |[speed, p99]| format!("{speed:.0}, {p99:.2}"))
            });
            let ratios = cells(&|count| {
                let own = medians(rows, application, Contender::Hydrozoa.name(), count);
                let ratio = own.zip(of(count)).map(|([own, _], [other, _])| own / other);
                ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))
            });
            let _ = writeln!(
                text,
                "| {} | {} | {figures} | {ratios} |",
                Application::title(application),
                Contender::title(contender)
            );
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processors_of_those_that_are_allowed_are_taken() {
        let of = |list: &str| processors(&format!("Name:\tlab\nCpus_allowed_list:\t{list}\n"));
        assert_eq!(of("0-3").expect("four"), "0,1");
        assert_eq!(of("2,5-7").expect("four"), "2,5");
        assert!(of("3").is_err() && processors("").is_err());
    }

    #[test]
    fn ratios_are_of_medians() {
        let row = |contender: &str, round, throughput| Row {
            application: "django".to_owned(),
            contender: contender.to_owned(),
            connections: 16,
            round,
            throughput,
            ..Row::default()
        };
        let rows = [
            row("hydrozoa", 1, 30.0),
            row("gunicorn", 1, 10.0),
            row("hydrozoa", 2, 20.0),
            row("gunicorn", 2, 10.0),
            row("hydrozoa", 3, 1.0),
            row("gunicorn", 3, 11.0),
        ];
        let text = text(&rows);
        assert!(text.contains("| gunicorn, sync | 10, 0.00 | 2.00 |"), "{text}");
        assert!(text.contains("| hydrozoa run | 20, 0.00 | 1.00 |"), "{text}");
    }
}
