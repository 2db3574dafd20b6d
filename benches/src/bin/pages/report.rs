//! The outcome of requests.

use std::collections::BTreeSet;
use std::time::Duration;

use hydrozoa_measure::samples::Samples;
use serde::Serialize;

/// Latencies, and the workers that have answered.
#[derive(Debug, Default)]
pub struct Counted {
    samples: Samples,
    workers: BTreeSet<String>,
}

/// The line that is printed.
#[derive(Debug, Serialize)]
pub struct Report {
    pub requests: usize,
    pub seconds: f64,
    pub throughput: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// Names of the workers that have answered.
    pub workers: BTreeSet<String>,
}

impl Counted {
    /// A worker has answered.
    pub fn reached(&mut self, worker: &str) {
        if !self.workers.contains(worker) {
            self.workers.insert(worker.to_owned());
        }
    }

    /// A response that counts.
    pub fn record(&mut self, took: Duration) {
        self.samples.record(took, true);
    }

    pub fn merge(&mut self, other: Self) {
        self.samples.merge(other.samples);
        self.workers.extend(other.workers);
    }

    /// The sum, of so much time.
    pub fn report(mut self, time: Duration) -> Report {
        self.samples.seconds = time.as_secs_f64();
        Report {
            requests: self.samples.latencies_us.len(),
            seconds: self.samples.seconds,
            throughput: self.samples.throughput(),
            p50_ms: self.samples.latency_ms(0.5),
            p99_ms: self.samples.latency_ms(0.99),
            workers: self.workers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_add_up() {
        let of = |worker: &str, ms: u64| {
            let mut counted = Counted::default();
            counted.reached(worker);
            counted.record(Duration::from_millis(ms));
            counted
        };
        let mut all = of("a", 1);
        all.merge(of("b", 3));
        all.merge(of("a", 2));
        let report = all.report(Duration::from_secs(2));
        assert_eq!((report.requests, report.throughput), (3, 1.5));
        assert_eq!((report.p50_ms, report.p99_ms), (2.0, 3.0));
        assert_eq!(report.workers.into_iter().collect::<Vec<_>>(), ["a", "b"]);
    }
}
