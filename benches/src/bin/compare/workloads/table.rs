//! The report: Markdown tables for people, JSON for programs.

use hydrozoa_measure::samples::{Samples, median, percentile};
use serde::Serialize;

use super::work::Work;
use crate::machine::Machine;
use crate::measured::{Measured, find, ratios};

/// One worker of plain python.
const ONE: (&str, usize) = ("processes", 1);

/// The whole result.
#[derive(Debug, Serialize)]
pub struct Report {
    machine: Machine,
    seconds: f64,
    rounds: usize,
    rows: Vec<Row>,
}

/// One contender on one piece of work: medians over the rounds.
#[derive(Debug, Serialize)]
struct Row {
    work: &'static str,
    title: &'static str,
    contender: String,
    kind: &'static str,
    count: usize,
    /// Calls for each second, of all workers.
    throughput: f64,
    /// Throughput of each round.
    rounds: Vec<f64>,
    /// Throughput over that of one worker of plain python in the same round: median, least and greatest.
    ratio: f64,
    least: f64,
    greatest: f64,
    p50_ms: f64,
    p99_ms: f64,
    /// Instructions in user mode for each call, in millions; nothing where the processor's counters are not to be had.
    instructions_m: Option<f64>,
    /// CPU time of a call in milliseconds, with that of the kernel.
    cpu_ms: f64,
    /// Switches of threads and page faults for each call.
    switches: f64,
    faults: f64,
    /// Private memory of a further worker in MiB; nothing for a single one, and for threads.
    further_mib: Option<f64>,
    calls: usize,
    wrong: usize,
}

impl Report {
    pub fn new(works: &[Work], measured: &[Measured], seconds: f64, rounds: usize) -> Self {
        let rows = works.iter().flat_map(|work| {
            let own = measured.iter().filter(|one| one.model == work.name());
            own.map(|one| Row::new(*work, one, measured))
        });
        Self { machine: Machine::this(), seconds, rounds, rows: rows.collect() }
    }

    pub fn wrong(&self) -> usize {
        self.rows.iter().map(|row| row.wrong).sum()
    }

    pub fn print(&self) {
        let Machine { processor, cores, memory_gib, .. } = &self.machine;
        println!(
            "{processor}, {cores} cores, {memory_gib:.0} GiB; medians of {} rounds of {} s\n",
            self.rounds, self.seconds
        );
        println!(
            "Calls a second of all workers, as a multiple of one process with plain python (least and greatest round):\n"
        );
        self.table(true, |row| {
            if (row.kind, row.count) == ONE {
                format!("{:.1}/s", row.throughput)
            } else {
                format!("{:.2} ({:.2} to {:.2})", row.ratio, row.least, row.greatest)
            }
        });
        println!("\nMilliseconds of CPU time for each call:\n");
        self.table(true, |row| format!("{:.2}", row.cpu_ms));
        if self.rows.iter().all(|row| row.instructions_m.is_none()) {
            println!(
                "\nInstructions are not counted: this machine gives no counters of the processor."
            );
        } else {
            println!("\nMillions of instructions in user mode for each call:\n");
            self.table(true, |row| number(row.instructions_m));
        }
        println!("\nMiB of private memory of a further worker:\n");
        self.table(false, |row| number(row.further_mib));
        let calls: usize = self.rows.iter().map(|row| row.calls).sum();
        println!(
            "\n{calls} results compared with plain python's bit for bit, {} differ",
            self.wrong()
        );
    }

    /// A line for each piece of work, a column for each contender: all, or those with a further worker.
    fn table(&self, all: bool, cell: impl Fn(&Row) -> String) {
        let shown = |row: &&Row| all || row.further_mib.is_some();
        let mut work = "";
        for row in self.rows.iter().filter(shown) {
            if work.is_empty() {
                let first = self.rows.iter().filter(|one| one.work == row.work).filter(shown);
                let heads: Vec<&str> = first.map(|one| one.contender.as_str()).collect();
                println!("| work | {} |", heads.join(" | "));
                print!("|---|{}", "---|".repeat(heads.len()));
            }
            if row.work != work {
                work = row.work;
                print!("\n| {} |", row.title);
            }
            print!(" {} |", cell(row));
        }
        println!();
    }
}

impl Row {
    fn new(work: Work, one: &Measured, all: &[Measured]) -> Self {
        let ratios = ratios(Some(one), find(all, &one.model, ONE));
        Self {
            work: work.name(),
            title: work.title(),
            contender: one.line.label.clone(),
            kind: one.line.kind,
            count: one.line.count,
            throughput: one.median(Samples::throughput),
            rounds: one.rounds.iter().map(Samples::throughput).collect(),
            ratio: median(&ratios),
            least: percentile(&ratios, 0.0),
            greatest: percentile(&ratios, 1.0),
            p50_ms: one.median(|samples| samples.latency_ms(0.5)),
            p99_ms: one.median(|samples| samples.latency_ms(0.99)),
            instructions_m: one.instructions_m(),
            cpu_ms: one.median(|samples| samples.for_each_call(samples.effort.cpu_us) / 1e3),
            switches: one.median(|samples| samples.for_each_call(samples.effort.switches)),
            faults: one.median(|samples| samples.for_each_call(samples.effort.faults)),
            further_mib: one.private(all).further,
            calls: one.calls(),
            wrong: one.wrong(),
        }
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.1}"))
}
