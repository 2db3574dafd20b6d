//! The memory of a further worker: that of a server with four workers less that of one with one, divided by three.

use std::fmt::Write as _;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use hydrozoa_measure::family::FamilyMemory;
use hydrozoa_measure::machine::Machine;
use hydrozoa_measure::samples::median;
use serde::{Deserialize, Serialize};

use super::application::Application;
use super::contender::Contender;
use super::installed::Installed;
use super::running::Running;
use super::{Rows, Selection, names};

/// The numbers of workers that are compared.
const WORKERS: [usize; 2] = [1, 4];

/// Connections of the client.
const CONNECTIONS: usize = 16;

/// Seconds at the end of the light load in which memory is measured again and again.
const SAMPLED: f64 = 10.0;

/// The states of a server in which its memory is measured.
const STATES: [&str; 2] = ["rest", "load"];

/// A further worker's private memory is at most so much of what another server's process takes.
const OF_A_PROCESS: f64 = 0.25;

/// And at most so much of what a preloaded child takes.
const OF_A_CHILD: f64 = 0.8;

/// Options of `cargo xtask lab web memory`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    selection: Selection,
    /// Requests before a server rests
    #[arg(long, value_name = "N", default_value_t = 4000)]
    requests: usize,
    /// Seconds of the rest
    #[arg(long, value_name = "S", default_value_t = 12.0)]
    rest: f64,
    /// Seconds of the light load after it
    #[arg(long, value_name = "S", default_value_t = 30.0)]
    load: f64,
    /// Requests in a second of the light load
    #[arg(long, value_name = "N", default_value_t = 50.0)]
    rate: f64,
}

/// A server's memory in one of its states.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Row {
    machine: String,
    application: String,
    contender: String,
    workers: usize,
    state: String,
    anonymous_mib: f64,
    private_mib: f64,
    pss_mib: f64,
    processes: usize,
    /// Workers that have answered in this state.
    reached: usize,
    ready_seconds: f64,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let rows = arguments.selection.rows("memory", |installed, pairs, rows| {
        for (application, contenders) in pairs {
            for contender in contenders {
                for workers in WORKERS {
                    measure(arguments, installed, (*application, *contender, workers), rows)?;
                }
            }
        }
        Ok(())
    })?;
    println!("{}", text(&rows));
    let broken: Vec<_> = promises(&rows).into_iter().filter(|promise| !promise.is_kept()).collect();
    let words: Vec<_> = broken.iter().map(Promise::words).collect();
    ensure!(broken.is_empty(), "promises are broken: {}", words.join("; "));
    Ok(())
}

/// Starts one server alone, asks it, has it rest, and asks it little.
fn measure(
    arguments: &Arguments,
    installed: &Installed,
    (application, contender, workers): (Application, Contender, usize),
    rows: &mut Rows<Row>,
) -> Result<()> {
    let running = Running::start(installed, contender, application, workers, None)?;
    let asked = running.closed(CONNECTIONS, arguments.requests)?.workers.len();
    ensure!(
        asked == workers,
        "{} of {workers} workers of {} have answered",
        asked,
        contender.name()
    );
    sleep(Duration::from_secs_f64(arguments.rest));
    let rest = (running.memory()?, asked);
    let load = light_load(arguments, &running)?;
    for (state, (memory, reached)) in STATES.into_iter().zip([rest, load]) {
        let row = Row {
            machine: Machine::this().words(),
            application: application.name().to_owned(),
            contender: contender.name().to_owned(),
            workers,
            state: state.to_owned(),
            anonymous_mib: memory.anonymous,
            private_mib: memory.private,
            pss_mib: memory.shares,
            processes: memory.processes,
            reached,
            ready_seconds: running.ready_seconds(),
        };
        eprintln!(
            "{:<11} {:<17} {workers} workers, {state}: anonymous {:.1} MiB, private {:.1} MiB, Pss {:.1} MiB",
            row.application, row.contender, row.anonymous_mib, row.private_mib, row.pss_mib
        );
        rows.replace(row, is_same)?;
    }
    running.end()
}

/// The median memory of the light load's last seconds, and how many workers have answered. A dense worker has more of it shortly after it
/// was settled again, and less before.
fn light_load(arguments: &Arguments, running: &Running<'_>) -> Result<(FamilyMemory, usize)> {
    let begin = Instant::now();
    let steady = running.steady(CONNECTIONS, arguments.rate, arguments.load)?;
    sleep(Duration::from_secs_f64((arguments.load - SAMPLED).max(0.0)));
    let mut samples = Vec::new();
    while samples.is_empty() || begin.elapsed().as_secs_f64() < arguments.load - 1.0 {
        samples.push(running.memory()?);
        sleep(Duration::from_millis(500));
    }
    let reached = steady.end()?.workers.len();
    let middle = |of: fn(&FamilyMemory) -> f64| median(&samples.iter().map(of).collect::<Vec<_>>());
    let memory = FamilyMemory {
        anonymous: middle(|memory| memory.anonymous),
        private: middle(|memory| memory.private),
        shares: middle(|memory| memory.shares),
        ..samples[0]
    };
    Ok((memory, reached))
}

/// Whether a row is of the same server in the same state.
fn is_same(one: &Row, other: &Row) -> bool {
    let key = |row: &Row| {
        (row.application.clone(), row.contender.clone(), row.workers, row.state.clone())
    };
    key(one) == key(other)
}

/// The memory of a further worker, in MiB.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Further {
    anonymous: f64,
    private: f64,
    pss: f64,
}

/// Nothing if one of the two servers was not measured.
fn further(rows: &[Row], application: &str, contender: &str, state: &str) -> Option<Further> {
    let [one, four] = WORKERS.map(|workers| {
        rows.iter().find(|row| {
            let is_state = row.workers == workers && row.state == state;
            is_state && row.application == application && row.contender == contender
        })
    });
    let (one, four) = (one?, four?);
    let each = |of: fn(&Row) -> f64| (of(four) - of(one)) / (WORKERS[1] - WORKERS[0]) as f64;
    Some(Further {
        anonymous: each(|row| row.anonymous_mib),
        private: each(|row| row.private_mib),
        pss: each(|row| row.pss_mib),
    })
}

/// A promised ratio, and what it is.
#[derive(Debug)]
struct Promise {
    application: String,
    state: &'static str,
    rival: String,
    own: f64,
    other: f64,
    limit: f64,
}

impl Promise {
    fn is_kept(&self) -> bool {
        self.own <= self.limit * self.other
    }

    fn words(&self) -> String {
        let Self { application, state, rival, own, other, limit } = self;
        format!("{application} ({state}): {own:.1} MiB of {other:.1} of {rival}, promised {limit}")
    }
}

/// The promises that the measurements tell something about.
fn promises(rows: &[Row]) -> Vec<Promise> {
    let mut found = Vec::new();
    for application in names(rows, |row| &row.application) {
        for state in STATES {
            let private = |contender: &str| {
                further(rows, application, contender, state).map(|further| further.private)
            };
            let Some(own) = private(Contender::Hydrozoa.name()) else { continue };
            let child = Contender::GunicornPreload;
            let is_process = |one: &Contender| *one != Contender::Hydrozoa && *one != child;
            let processes = Contender::ALL.into_iter().filter(is_process);
            let least = processes
                .filter_map(|one| Some((one, private(one.name())?)))
                .min_by(|(_, one), (_, other)| one.total_cmp(other));
            let child = private(child.name()).map(|other| (child, other));
            for (rival, limit) in [(least, OF_A_PROCESS), (child, OF_A_CHILD)] {
                let Some((rival, other)) = rival else { continue };
                let (application, rival) = (application.to_owned(), rival.name().to_owned());
                found.push(Promise { application, state, rival, own, other, limit });
            }
        }
    }
    found
}

fn text(rows: &[Row]) -> String {
    let machine = rows.first().map_or("", |row| &row.machine);
    let mut text = format!(
        "A further worker's memory in MiB, at rest and under a light load, measured on {machine}.\n\n\
         | application | server | anonymous | private | Pss | loaded: anonymous | private | Pss | of 4 workers, answered |\n\
         |---|---|---:|---:|---:|---:|---:|---:|---:|\n"
    );
    for application in names(rows, |row| &row.application) {
        for contender in names(rows, |row| &row.contender) {
            line(&mut text, rows, application, contender);
        }
    }
    text.push_str(
        "\nThe promises, of a further worker's private memory.\n\n\
         | application | state | of | MiB | of MiB | ratio | at most | kept |\n|---|---|---|---:|---:|---:|---:|---|\n",
    );
    for promise in promises(rows) {
        let Promise { application, state, rival, own, other, limit } = &promise;
        let kept = if promise.is_kept() { "yes" } else { "no" };
        let _ = writeln!(
            text,
            "| {} | {state} | {} | {own:.2} | {other:.2} | {:.2} | {limit} | {kept} |",
            Application::title(application),
            Contender::title(rival),
            own / other
        );
    }
    text
}

/// The row of a server, if it was measured.
fn line(text: &mut String, rows: &[Row], application: &str, contender: &str) {
    let figures = STATES.map(|state| further(rows, application, contender, state));
    if figures == [None; 2] {
        return;
    }
    let cells = figures.map(|figure| match figure {
        Some(Further { anonymous, private, pss }) => {
            format!("{anonymous:.1} | {private:.1} | {pss:.1}")
        }
        None => "- | - | -".to_owned(),
    });
    let reached = rows.iter().find(|row| {
        let is_loaded = row.workers == WORKERS[1] && row.state == STATES[1];
        is_loaded && row.application == application && row.contender == contender
    });
    let _ = writeln!(
        text,
        "| {} | {} | {} | {} |",
        Application::title(application),
        Contender::title(contender),
        cells.join(" | "),
        reached.map_or("-".to_owned(), |row| row.reached.to_string())
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(contender: &str, workers: usize, private_mib: f64) -> Row {
        Row {
            application: "django".to_owned(),
            contender: contender.to_owned(),
            workers,
            state: "rest".to_owned(),
            private_mib,
            ..Row::default()
        }
    }

    fn rows(own: f64) -> Vec<Row> {
        vec![
            row("hydrozoa", 1, 50.0),
            row("hydrozoa", 4, 50.0 + 3.0 * own),
            row("gunicorn", 1, 40.0),
            row("gunicorn", 4, 130.0),
            row("granian", 1, 40.0),
            row("granian", 4, 100.0),
            row("gunicorn-preload", 1, 40.0),
            row("gunicorn-preload", 4, 70.0),
        ]
    }

    #[test]
    fn a_further_worker_is_a_third_of_three() {
        let found = further(&rows(1.0), "django", "granian", "rest").expect("both are measured");
        assert_eq!((found.private, found.anonymous), (20.0, 0.0));
        assert_eq!(further(&rows(1.0), "django", "granian", "load"), None);
    }

    #[test]
    fn promises_are_about_the_best_process_and_the_preloaded_child() {
        let kept = |own| promises(&rows(own)).iter().map(Promise::is_kept).collect::<Vec<_>>();
        assert_eq!(kept(5.0), [true, true]);
        assert_eq!(kept(6.0), [false, true]);
        assert_eq!(kept(9.0), [false, false]);
        let words = promises(&rows(6.0))[0].words();
        assert_eq!(words, "django (rest): 6.0 MiB of 20.0 of granian, promised 0.25");
        let text = text(&rows(5.0));
        assert!(text.contains("| rest | Granian | 5.00 | 20.00 | 0.25 | 0.25 | yes |"), "{text}");
        assert!(text.contains("| Granian | 0.0 | 20.0 | 0.0 | - | - | - | - |"), "{text}");
    }
}
