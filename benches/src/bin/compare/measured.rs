//! What a comparison has measured, and the figures that tables have of it.

use anyhow::Result;
use hydrozoa_measure::samples::{Samples, median, percentile};

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

/// What the workers of a line take, in MiB of private memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Private {
    /// The first worker, with its process.
    pub first: f64,
    /// The average that each further one adds; nothing for a single one.
    pub further: Option<f64>,
}

impl Measured {
    pub fn new(model: &str, line: &Line) -> Self {
        Self { model: model.to_owned(), line: line.clone(), rounds: vec![] }
    }

    /// The median over the rounds.
    pub fn median(&self, of: impl Fn(&Samples) -> f64) -> f64 {
        median(&self.rounds.iter().map(of).collect::<Vec<_>>())
    }

    /// Millions of instructions in user mode for each call. Nothing where the processor's counters are not to be had.
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

    pub fn calls(&self) -> usize {
        self.rounds.iter().map(|samples| samples.latencies_us.len()).sum()
    }

    pub fn wrong(&self) -> usize {
        self.rounds.iter().map(|samples| samples.wrong).sum()
    }

    /// What the line's workers took after the last round. `all` has the lines with one worker.
    pub fn private(&self, all: &[Self]) -> Private {
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
