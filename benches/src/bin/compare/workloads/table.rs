//! The report: Markdown tables for people, JSON for programs.

use hydrozoa_measure::machine::Machine;
use serde::Serialize;

use super::work::Work;
use crate::measured::{Figures, Measured, number};

/// One worker of plain python.
const ONE: (&str, usize) = ("processes", 1);

/// The whole result.
#[derive(Debug, Serialize)]
pub struct Report {
    machine: Machine,
    seconds: f64,
    rounds: usize,
    rows: Vec<Figures>,
}

impl Report {
    pub fn new(measured: &[Measured], seconds: f64, rounds: usize) -> Self {
        let rows = measured.iter().map(|one| Figures::of(one, measured, ONE)).collect();
        Self { machine: Machine::this(), seconds, rounds, rows }
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
    fn table(&self, all: bool, cell: impl Fn(&Figures) -> String) {
        let shown = |row: &&Figures| all || row.further_mib.is_some();
        let mut work = "";
        for row in self.rows.iter().filter(shown) {
            if work.is_empty() {
                let first = self.rows.iter().filter(|one| one.model == row.model).filter(shown);
                let heads: Vec<&str> = first.map(|one| one.contender.as_str()).collect();
                println!("| work | {} |", heads.join(" | "));
                print!("|---|{}", "---|".repeat(heads.len()));
            }
            if row.model != work {
                work = &row.model;
                print!("\n| {} |", Work::titled(work));
            }
            print!(" {} |", cell(row));
        }
        println!();
    }
}
