//! How many workers serve an application within a limit of memory.
//!
//! Two servers with as many workers, one of them in a control group with a limit, have their turns. Numbers of workers that are served
//! are doubled, and halved towards the first that is not.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use hydrozoa_measure::group::Group;
use hydrozoa_measure::machine::Machine;
use hydrozoa_measure::samples::median;
use serde::{Deserialize, Serialize};

use super::application::Application;
use super::contender::Contender;
use super::installed::Installed;
use super::running::{Report, Running};
use super::{Selection, names};

/// At most this many times the 99th percentile without a limit, for a number of workers that is served.
const SLOWER: f64 = 1.2;

/// How often a number of workers is tried that is slow.
const PATIENCE: usize = 3;

/// Options of `cargo xtask lab web limits`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    selection: Selection,
    /// The limit in MiB
    #[arg(long, value_name = "N", default_value_t = 512)]
    limit: u64,
    /// No more workers than these
    #[arg(long, value_name = "N", default_value_t = 64)]
    most: usize,
    /// Connections at once
    #[arg(long, value_name = "N", default_value_t = 8)]
    connections: usize,
    /// Seconds of a window
    #[arg(long, value_name = "S", default_value_t = 3.0)]
    seconds: f64,
    /// Windows of each server; medians count
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
}

/// A server with a number of workers within the limit.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Row {
    machine: String,
    limit_mib: u64,
    application: String,
    contender: String,
    workers: usize,
    p99_ms: f64,
    free_p99_ms: f64,
    throughput: f64,
    free_throughput: f64,
    anonymous_mib: f64,
    files_mib: f64,
    /// Why it is not served; empty if it is.
    stop: String,
}

impl Row {
    fn words(&self) -> String {
        let Self { application, contender, workers, p99_ms, free_p99_ms, anonymous_mib, .. } = self;
        format!(
            "{application:<11} {contender:<17} {workers} workers: p99 {p99_ms:.2} ms, without a limit {free_p99_ms:.2} ms, anonymous \
             {anonymous_mib:.0} MiB {}",
            self.stop
        )
    }
}

pub fn run(arguments: &Arguments) -> Result<()> {
    // At once: the applications take minutes to prepare.
    if arguments.selection.from.is_none() {
        drop(Group::new(Some(arguments.limit << 20))?);
    }
    let rows = arguments.selection.rows("limits", |installed, pairs, rows| {
        for (application, contenders) in pairs {
            for contender in contenders {
                let mut search = Search::new(arguments.most);
                while let Some(workers) = search.next() {
                    let mut is_served = false;
                    // A slow one may be a neighbour on the machine.
                    for _ in 0..PATIENCE {
                        let row = trial(arguments, installed, *application, *contender, workers)?;
                        eprintln!("{}", row.words());
                        let is_slow = row.p99_ms > 0.0 && row.stop != KILLED;
                        is_served = row.stop.is_empty();
                        rows.push(row)?;
                        if is_served || !is_slow {
                            break;
                        }
                    }
                    search.found(workers, is_served);
                }
            }
        }
        Ok(())
    })?;
    println!("{}", text(&rows));
    Ok(())
}

/// The numbers of workers that are tried.
#[derive(Debug)]
struct Search {
    most: usize,
    served: usize,
    refused: Option<usize>,
}

impl Search {
    fn new(most: usize) -> Self {
        Self { most, served: 0, refused: None }
    }

    /// Nothing once the answer is known to an eighth.
    fn next(&self) -> Option<usize> {
        match self.refused {
            None if self.served == self.most => None,
            None => Some((2 * self.served).clamp(1, self.most)),
            Some(refused) if refused - self.served <= (self.served / 8).max(1) => None,
            Some(refused) => Some(self.served.midpoint(refused)),
        }
    }

    fn found(&mut self, workers: usize, is_served: bool) {
        match is_served {
            true => self.served = workers,
            false => self.refused = Some(workers),
        }
    }
}

/// Both servers with so many workers.
fn trial(
    arguments: &Arguments,
    installed: &Installed,
    application: Application,
    contender: Contender,
    workers: usize,
) -> Result<Row> {
    let mut row = Row {
        machine: Machine::this().words(),
        limit_mib: arguments.limit,
        application: application.name().to_owned(),
        contender: contender.name().to_owned(),
        workers,
        ..Row::default()
    };
    // Dropped last: it can be removed when its processes have ended.
    let group = Group::new(Some(arguments.limit << 20))?;
    let limited = Running::start(installed, contender, application, workers, Some(&group));
    let limited = match limited {
        Ok(limited) => limited,
        Err(error) => {
            row.stop = reason(&group, &error)?;
            return Ok(row);
        }
    };
    let free = Running::start(installed, contender, application, workers, None);
    let free = free.context("without a limit")?;
    let (mut own, mut other) = (Vec::new(), Vec::new());
    for _ in 0..arguments.rounds {
        match limited.window(arguments.connections, arguments.seconds, true) {
            Ok(report) => own.push(report),
            Err(error) => {
                row.stop = reason(&group, &error)?;
                return Ok(row);
            }
        }
        other.push(free.window(arguments.connections, arguments.seconds, true)?);
    }
    let footprint = group.footprint()?;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let p99 = |report: &Report| report.p99_ms;
    let throughput = |report: &Report| report.throughput;
    (row.p99_ms, row.free_p99_ms) = (middle(&own, p99), middle(&other, p99));
    (row.throughput, row.free_throughput) = (middle(&own, throughput), middle(&other, throughput));
    (row.anonymous_mib, row.files_mib) = (mib(footprint.anonymous), mib(footprint.files));
    if group.kills()? > 0 {
        row.stop = KILLED.to_owned();
    } else if row.p99_ms > SLOWER * row.free_p99_ms {
        row.stop =
            format!("its p99 is {:.1} times that without a limit", row.p99_ms / row.free_p99_ms);
    }
    limited.end()?;
    free.end()?;
    Ok(row)
}

const KILLED: &str = "the kernel killed a process for want of memory";

/// How a server within the limit has ended.
fn reason(group: &Group, error: &anyhow::Error) -> Result<String> {
    if group.kills()? > 0 {
        return Ok(KILLED.to_owned());
    }
    let words = format!("{error:#}");
    eprintln!("{words}");
    Ok(words.lines().next().unwrap_or_default().to_owned())
}

fn middle(reports: &[Report], of: fn(&Report) -> f64) -> f64 {
    median(&reports.iter().map(of).collect::<Vec<_>>())
}

fn text(rows: &[Row]) -> String {
    let (machine, limit) = rows.first().map_or(("", 0), |row| (&row.machine, row.limit_mib));
    let mut text = format!(
        "Workers that serve an application within {limit} MiB, measured on {machine}.\n\n\
         | application | server | workers | of hydrozoa, times as many | p99, ms | without a limit | the first that is not served |\n\
         |---|---|---:|---:|---:|---:|---|\n"
    );
    for application in names(rows, |row| &row.application) {
        let of = |contender: &str| {
            let is = |row: &&Row| row.application == application && row.contender == contender;
            rows.iter().filter(is).cloned().collect::<Vec<_>>()
        };
        let own = served(&of(Contender::Hydrozoa.name())).map_or(0, |row| row.workers);
        for contender in names(rows, |row| &row.contender) {
            let tried = of(contender);
            if tried.is_empty() {
                continue;
            }
            let best = served(&tried).cloned().unwrap_or_default();
            let more = tried.iter().filter(|row| row.workers > best.workers);
            let stop = more.min_by_key(|row| row.workers);
            let ratio = match best.workers {
                0 => "-".to_owned(),
                workers => format!("{:.1}", own as f64 / workers as f64),
            };
            let _ = writeln!(
                text,
                "| {} | {} | {} | {ratio} | {:.2} | {:.2} | {} |",
                Application::title(application),
                Contender::title(contender),
                best.workers,
                best.p99_ms,
                best.free_p99_ms,
                stop.map_or_else(
                    || "all were".to_owned(),
                    |row| format!("{}: {}", row.workers, row.stop)
                )
            );
        }
    }
    text
}

/// The largest number of workers that is served.
fn served(rows: &[Row]) -> Option<&Row> {
    rows.iter().filter(|row| row.stop.is_empty()).max_by_key(|row| row.workers)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The numbers that are tried where so many workers fit.
    fn tried(fit: usize, most: usize) -> (Vec<usize>, usize) {
        let (mut search, mut tried) = (Search::new(most), Vec::new());
        while let Some(workers) = search.next() {
            tried.push(workers);
            search.found(workers, workers <= fit);
        }
        (tried, search.served)
    }

    #[test]
    fn numbers_are_doubled_and_halved() {
        assert_eq!(tried(0, 64), (vec![1], 0));
        assert_eq!(tried(5, 64), (vec![1, 2, 4, 8, 6, 5], 5));
        assert_eq!(tried(64, 48), (vec![1, 2, 4, 8, 16, 32, 48], 48));
        assert_eq!(tried(29, 64).1, 28);
    }

    #[test]
    fn the_table_has_the_most_that_are_served_and_why_no_more() {
        let row = |contender: &str, workers, stop: &str| Row {
            application: "django".to_owned(),
            contender: contender.to_owned(),
            limit_mib: 512,
            workers,
            stop: stop.to_owned(),
            ..Row::default()
        };
        let rows = [
            row("hydrozoa", 8, ""),
            row("hydrozoa", 16, ""),
            row("gunicorn", 8, "slow once"),
            row("gunicorn", 8, ""),
            row("gunicorn", 16, "killed"),
        ];
        let text = text(&rows);
        assert!(text.contains("| hydrozoa run | 16 | 1.0 | 0.00 | 0.00 | all were |"), "{text}");
        assert!(text.contains("| 8 | 2.0 | 0.00 | 0.00 | 16: killed |"), "{text}");
    }
}
