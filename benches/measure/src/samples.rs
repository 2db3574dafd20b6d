//! Latencies of many calls and their statistics.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::effort::Effort;

/// The result of one measurement.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Samples {
    /// Duration of each call in microseconds.
    pub latencies_us: Vec<f64>,
    /// Calls whose result differed from the expected bits.
    pub wrong: usize,
    /// Wall time in seconds, from the start of the first call to the end of the last.
    pub seconds: f64,
    /// The processes' effort meanwhile.
    pub effort: Effort,
    /// The processes that took part; their memory is not measured yet (`measure_memory`).
    pub processes: Vec<u32>,
    /// Private memory in KiB of each process that took part, as `hydrozoa::memory` defines it.
    pub private_kib: Vec<u64>,
    /// The figure that the contender was told to read.
    pub reading: i64,
}

impl Samples {
    /// Adds the samples of another contender that ran at the same time.
    pub fn merge(&mut self, other: Self) {
        if self.latencies_us.is_empty() {
            self.effort = Effort { instructions: Some(0), cycles: Some(0), ..self.effort };
        }
        self.latencies_us.extend(other.latencies_us);
        self.wrong += other.wrong;
        self.seconds = self.seconds.max(other.seconds);
        self.effort.add(other.effort);
        self.processes.extend(other.processes);
        self.private_kib.extend(other.private_kib);
    }

    /// Measures the private memory of [`Samples::processes`], which must be alive.
    ///
    /// # Errors
    ///
    /// One of them has ended, or belongs to another user.
    #[cfg(feature = "interpreters")]
    pub fn measure_memory(&mut self) -> hydrozoa::Result<()> {
        for process in self.processes.drain(..) {
            self.private_kib.push((hydrozoa::memory::Usage::of(process)?.private >> 10) as u64);
        }
        Ok(())
    }

    /// Records one call.
    pub fn record(&mut self, duration: Duration, right: bool) {
        self.latencies_us.push(duration.as_secs_f64() * 1e6);
        self.wrong += usize::from(!right);
    }

    /// Calls for each second of wall time.
    pub fn throughput(&self) -> f64 {
        if self.seconds > 0.0 { self.latencies_us.len() as f64 / self.seconds } else { 0.0 }
    }

    /// A count of [`Samples::effort`] for each call; 0 without calls.
    pub fn for_each_call(&self, count: u64) -> f64 {
        count as f64 / self.latencies_us.len().max(1) as f64
    }

    /// The latency in milliseconds that the share `quantile` (0 to 1) of the calls did not exceed; 0 without calls.
    pub fn latency_ms(&self, quantile: f64) -> f64 {
        percentile(&self.latencies_us, quantile) / 1e3
    }
}

/// The value that the share `quantile` (0 to 1) of the values does not exceed (nearest rank); 0 for no values.
pub fn percentile(values: &[f64], quantile: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (quantile * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).or(sorted.last()).copied().unwrap_or(0.0)
}

/// The middle value, or the mean of the two in the middle; 0 for no values.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match (sorted.len(), sorted.len() / 2) {
        (0, _) => 0.0,
        (length, middle) if length % 2 == 1 => sorted[middle],
        (_, middle) => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_is_the_nearest_rank() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(
            [0.0, 0.5, 0.99, 1.0].map(|quantile| percentile(&values, quantile)),
            [1.0, 50.0, 99.0, 100.0]
        );
        assert_eq!(percentile(&[7.0], 0.99), 7.0);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }

    #[test]
    fn median_of_even_and_odd_counts() {
        assert_eq!(
            [median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0, 2.0, 3.0]), median(&[])],
            [2.0, 2.5, 0.0]
        );
    }
}
