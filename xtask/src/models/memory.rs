//! The memory that BERT base takes in eight interpreters, and in a second process.

use anyhow::{Result, ensure};
use serde::Deserialize;

use super::{Place, json};

/// The largest allowed growth of private memory for each further interpreter, as a share of the weights.
const LIMIT: f64 = 0.03;

#[derive(Deserialize)]
struct Report {
    /// KiB of private memory that the first use of the model took in each interpreter.
    grown: Vec<i64>,
    pages: Pages,
    second: Pages,
}

/// KiB of the package's file in one process, while both processes map it.
#[derive(Deserialize)]
struct Pages {
    resident: u64,
    proportional: u64,
    anonymous: u64,
}

/// Prints the figures. Returns an error if a further interpreter takes more than [`LIMIT`], or if the second process has
/// pages of its own.
pub fn run(place: &Place, keep: bool) -> Result<()> {
    let export = place.export("bert")?;
    let report: Result<Report> = json(&mut place.runner("memory", "bert"));
    if !keep {
        place.remove("bert")?;
    }
    let report = report?;
    print(&report, export.weights);
    check(&report, export.weights as f64 / 1024.0)
}

fn print(report: &Report, bytes: u64) {
    let weights = bytes as f64 / 1024.0;
    println!("\nBERT base, {:.0} MB of weights", bytes as f64 / 1e6);
    println!("| interpreter | private memory for the model and a call, MB | part of the weights |");
    println!("|---|---|---|");
    for (index, grown) in report.grown.iter().enumerate() {
        let part = *grown as f64 / weights * 100.0;
        println!("| {} | {:.1} | {part:.2} % |", index + 1, *grown as f64 * 1.024e-3);
    }
    println!("\n| process | resident pages of the file, MB | Pss, MB | written, MB |");
    println!("|---|---|---|---|");
    for (name, pages) in [("first", &report.pages), ("second", &report.second)] {
        let mb = |kib: u64| kib as f64 * 1.024e-3;
        println!(
            "| {name} | {:.1} | {:.1} | {:.1} |",
            mb(pages.resident),
            mb(pages.proportional),
            mb(pages.anonymous)
        );
    }
}

fn check(report: &Report, weights: f64) -> Result<()> {
    let most = report.grown.iter().skip(1).max().copied().unwrap_or(0) as f64;
    ensure!(
        most <= LIMIT * weights,
        "a further interpreter takes {:.2} % of the weights, more than {:.0} %",
        most / weights * 100.0,
        LIMIT * 100.0
    );
    // Two processes that share all pages each count half of them.
    ensure!(
        report.second.proportional * 10 <= report.second.resident * 6,
        "the second process does not share the pages: Pss {} KiB of {} KiB",
        report.second.proportional,
        report.second.resident
    );
    Ok(())
}
