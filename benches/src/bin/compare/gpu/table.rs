//! The results of the measurements on the device.

use hydrozoa_measure::samples::{Samples, median};
use serde::Serialize;

use super::Options;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Interpreters,
    Processes,
}

/// One line of the table with the results of its rounds.
#[derive(Debug)]
pub struct Line {
    pub kind: Kind,
    pub count: usize,
    /// The growth of the device's used memory since before the start, in bytes.
    device_bytes: Vec<f64>,
    rounds: Vec<Samples>,
}

impl Line {
    pub fn new(kind: Kind, count: usize) -> Self {
        Self { kind, count, device_bytes: vec![], rounds: vec![] }
    }

    pub fn label(&self) -> String {
        let (one, many) = match self.kind {
            Kind::Interpreters => ("interpreter", "interpreters"),
            Kind::Processes => ("process", "processes"),
        };
        format!("{} {}", self.count, if self.count == 1 { one } else { many })
    }

    pub fn add(&mut self, device_bytes: i64, samples: Samples) {
        self.device_bytes.push(device_bytes as f64);
        self.rounds.push(samples);
    }

    fn median(&self, of: impl Fn(&Samples) -> f64) -> f64 {
        median(&self.rounds.iter().map(of).collect::<Vec<_>>())
    }
}

/// The whole result; medians over the rounds.
#[derive(Debug, Serialize)]
pub struct Report {
    device: String,
    torch: String,
    layers: usize,
    seconds: f64,
    rounds: usize,
    /// The weights have the same addresses in all interpreters of each pool. If they differ, the run ends with an
    /// error.
    uploaded_once: bool,
    lines: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    kind: Kind,
    count: usize,
    label: String,
    /// On the device, in MiB, contexts included.
    device_mib: f64,
    /// Private dirty memory of all its processes in MiB.
    private_mib: f64,
    /// Calls for each second.
    throughput: f64,
    p50_ms: f64,
    p99_ms: f64,
    calls: usize,
    wrong: usize,
}

impl Report {
    pub fn new(device: &str, torch: &str, options: &Options, lines: &[Line]) -> Self {
        let mib = f64::from(1 << 20);
        Self {
            device: device.to_owned(),
            torch: torch.to_owned(),
            layers: options.layers,
            seconds: options.seconds,
            rounds: options.rounds.max(1),
            uploaded_once: true,
            lines: lines
                .iter()
                .map(|line| Row {
                    kind: line.kind,
                    count: line.count,
                    label: line.label(),
                    device_mib: median(&line.device_bytes) / mib,
                    private_mib: line
                        .median(|samples| samples.private_kib.iter().sum::<u64>() as f64 / 1024.0),
                    throughput: line.median(Samples::throughput),
                    p50_ms: line.median(|samples| samples.latency_ms(0.5)),
                    p99_ms: line.median(|samples| samples.latency_ms(0.99)),
                    calls: line.rounds.iter().map(|samples| samples.latencies_us.len()).sum(),
                    wrong: line.rounds.iter().map(|samples| samples.wrong).sum(),
                })
                .collect(),
        }
    }

    pub fn print(&self) {
        println!(
            "{}, torch {}; {} layers; medians of {} round(s) of {} s",
            self.device, self.torch, self.layers, self.rounds, self.seconds
        );
        println!(
            "{:<16} {:>11} {:>12} {:>10} {:>9} {:>9} {:>8} {:>6}",
            "", "device MiB", "private MiB", "calls/s", "p50 ms", "p99 ms", "calls", "wrong"
        );
        for row in &self.lines {
            println!(
                "{:<16} {:>11.0} {:>12.0} {:>10.1} {:>9.2} {:>9.2} {:>8} {:>6}",
                row.label,
                row.device_mib,
                row.private_mib,
                row.throughput,
                row.p50_ms,
                row.p99_ms,
                row.calls,
                row.wrong
            );
        }
        println!("the weights have one address in all interpreters: uploaded once");
    }

    pub fn wrong(&self) -> usize {
        self.lines.iter().map(|row| row.wrong).sum()
    }
}
