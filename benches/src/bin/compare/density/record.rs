//! The figures of one number of workers, as a line of CSV and as a line of progress.

use std::fmt;

use hydrozoa_measure::samples::Samples;
use serde::Serialize;

/// Medians over the rounds.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Row {
    pub machine: String,
    pub limit_gib: f64,
    pub contender: String,
    pub workers: usize,
    /// From the order to start the first worker of a step to its first output.
    pub start_seconds: f64,
    pub start_cpu_seconds: f64,
    /// Anonymous memory that each of the last workers took until its first output.
    pub worker_mib: f64,
    /// Anonymous memory and page cache of all after they have served.
    pub anonymous_mib: f64,
    pub files_mib: f64,
    /// Calls for each second of all workers, and the latency of a call.
    pub throughput: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// The same without a limit.
    pub free_throughput: f64,
    pub free_p99_ms: f64,
    /// The median latency of one call of each worker, and of the first call after the kernel has taken its share of idle
    /// ones. For one number of workers; nothing for others.
    pub warm_ms: Option<f64>,
    pub idle_ms: Option<f64>,
    /// Outputs that differ from plain python's.
    pub wrong: usize,
    /// Why a contender got no further worker, in its last row.
    pub stop: String,
}

impl Row {
    /// Calls of each worker before and after the kernel has taken all it can.
    pub fn note_idle(&mut self, samples: Option<[Samples; 2]>) {
        let Some([warm, idle]) = samples else {
            eprintln!(
                "  this kernel cannot be asked for the memory of a group: no first call after idleness"
            );
            return;
        };
        self.warm_ms = Some(warm.latency_ms(0.5));
        self.idle_ms = Some(idle.latency_ms(0.5));
        self.wrong += warm.wrong + idle.wrong;
    }
}

impl fmt::Display for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:3} workers: {:5.0} MiB, {:.2} s for the last, {:.0} calls/s, p99 {:.1} ms ({:.1} without a limit)",
            self.workers,
            self.anonymous_mib,
            self.start_cpu_seconds,
            self.throughput,
            self.p99_ms,
            self.free_p99_ms
        )?;
        match (self.warm_ms, self.idle_ms) {
            (Some(warm), Some(idle)) => {
                write!(formatter, "; first call after idleness {idle:.1} ms ({warm:.1} before)")
            }
            _ => Ok(()),
        }
    }
}
