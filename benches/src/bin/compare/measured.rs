//! A comparison's measurements, and the figures that tables derive from them.

use anyhow::Result;
use hydrozoa_measure::samples::{Samples, median, percentile};
use serde::Serialize;

use crate::field::{Field, Line};

/// All measurements of one line on one model, one for each round.
#[derive(Debug)]
pub struct Measured {
    /// The model.
    pub model: String,
    /// The line.
    pub line: Line,
    /// In the order of the rounds.
    pub rounds: Vec<Samples>,
}

/// The private memory of a line's workers, in MiB.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Private {
    /// The first worker, with its process.
    first: f64,
    /// The average that each further one adds; nothing for a single one.
    further: Option<f64>,
}

impl Measured {
    pub fn new(model: &str, line: &Line) -> Self {
        Self { model: model.to_owned(), line: line.clone(), rounds: vec![] }
    }

    /// The median over the rounds.
    pub fn median(&self, of: impl Fn(&Samples) -> f64) -> f64 {
        median(&self.rounds.iter().map(of).collect::<Vec<_>>())
    }

    /// Millions of instructions in user mode for each call. Nothing where the processor's counters are unavailable.
    pub fn instructions_m(&self) -> Option<f64> {
        let each =
            |samples: &Samples| Some(samples.for_each_call(samples.effort.instructions?) / 1e6);
        Some(median(&self.rounds.iter().map(each).collect::<Option<Vec<_>>>()?))
    }

    /// Switches of threads for each call.
    pub fn switches(&self) -> f64 {
        self.median(|samples| samples.for_each_call(samples.effort.switches))
    }

    /// Page faults for each call.
    pub fn faults(&self) -> f64 {
        self.median(|samples| samples.for_each_call(samples.effort.faults))
    }

    /// The memory of the line's workers after the last round. `all` includes the lines with one worker.
    fn private(&self, all: &[Self]) -> Private {
        let private = self.private_mib();
        match self.line.kind {
            "interpreters" => {
                // One process holds all interpreters. A further interpreter costs the difference between the larger pool
                // and the pool of one.
                let single = find(all, &self.model, (self.line.kind, 1));
                let first = single.and_then(|single| single.private_mib().first().copied());
                let first = first.unwrap_or(0.0);
                let further = (private.first().copied().unwrap_or(0.0) - first)
                    / (self.line.count.max(2) - 1) as f64;
                Private { first, further: (self.line.count > 1).then_some(further) }
            }
            "threads" => Private { first: private.first().copied().unwrap_or(0.0), further: None },
            _ => Private {
                first: percentile(&private, 0.0),
                further: (private.len() > 1).then(|| median(&private)),
            },
        }
    }

    /// Of each process that took part in the last round.
    fn private_mib(&self) -> Vec<f64> {
        let kib = self.rounds.last().map(|samples| samples.private_kib.as_slice());
        kib.unwrap_or_default().iter().map(|kib| *kib as f64 / 1024.0).collect()
    }
}

/// One line on one model, as reports have it: medians over the rounds.
#[derive(Debug, Serialize)]
pub struct Figures {
    pub model: String,
    /// The line's label.
    pub contender: String,
    pub kind: &'static str,
    pub count: usize,
    /// Calls for each second, of all workers.
    pub throughput: f64,
    /// Throughput of each round.
    pub rounds: Vec<f64>,
    /// Throughput over that of another line in the same round: median, least and greatest; 0 where that was not compared.
    pub ratio: f64,
    pub least: f64,
    pub greatest: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// Private memory in MiB: of the first interpreter with its process, or of the first process.
    pub first_mib: f64,
    /// The average memory that each further worker adds; nothing for a single one, and for threads.
    pub further_mib: Option<f64>,
    /// Instructions in user mode for each call, in millions; nothing where the processor's counters are unavailable.
    pub instructions_m: Option<f64>,
    /// CPU time of a call in milliseconds, with that of the kernel.
    pub cpu_ms: f64,
    /// Switches of threads and page faults for each call.
    pub switches: f64,
    pub faults: f64,
    pub calls: usize,
    pub wrong: usize,
}

impl Figures {
    /// `base` is the line that others are compared with.
    pub fn of(one: &Measured, all: &[Measured], base: (&str, usize)) -> Self {
        let ratios = ratios(Some(one), find(all, &one.model, base));
        let Private { first, further } = one.private(all);
        Self {
            model: one.model.clone(),
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
            first_mib: first,
            further_mib: further,
            instructions_m: one.instructions_m(),
            cpu_ms: one.median(|samples| samples.for_each_call(samples.effort.cpu_us) / 1e3),
            switches: one.switches(),
            faults: one.faults(),
            calls: one.rounds.iter().map(|samples| samples.latencies_us.len()).sum(),
            wrong: one.rounds.iter().map(|samples| samples.wrong).sum(),
        }
    }
}

/// A figure that may be missing, in a table.
pub fn number(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.1}"))
}

/// Measures all lines of a field by turns, so many times.
pub fn in_turns(
    field: &mut Field,
    model: &str,
    rounds: usize,
    seconds: f64,
) -> Result<Vec<Measured>> {
    let mut measured: Vec<Measured> =
        field.lines().iter().map(|line| Measured::new(model, line)).collect();
    for round in 0..rounds {
        eprintln!("  round {} of {rounds}", round + 1);
        let mut order: Vec<usize> = (0..measured.len()).collect();
        // Every other round runs backwards, so that a drift of the machine's speed favours nobody.
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let one = &mut measured[index];
            one.rounds.push(field.measure(&one.line, &one.model, seconds)?);
        }
    }
    Ok(measured)
}

/// The line of that kind and count.
pub fn find<'a>(
    measured: &'a [Measured],
    model: &str,
    (kind, count): (&str, usize),
) -> Option<&'a Measured> {
    measured
        .iter()
        .find(|one| one.model == model && one.line.kind == kind && one.line.count == count)
}

/// In each round, the ratio of the throughput of `of` to that of `to`.
pub fn ratios(of: Option<&Measured>, to: Option<&Measured>) -> Vec<f64> {
    let (Some(of), Some(to)) = (of, to) else { return Vec::new() };
    of.rounds
        .iter()
        .zip(&to.rounds)
        .map(|(of, to)| of.throughput() / to.throughput().max(f64::MIN_POSITIVE))
        .collect()
}
