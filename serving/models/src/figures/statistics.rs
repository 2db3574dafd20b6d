//! The counters of a model.

use crate::figures::last_minute::{Latency, Recent};
use crate::request::Code;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Counts and durations since a model was loaded, by the names of the protocol's statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Requests that received their last response.
    pub success: u64,
    /// Requests that have failed.
    pub failed: u64,
    /// The same by the reason.
    pub failures: Failures,
    /// Inferences: the batch sizes of the requests that succeeded, taken together.
    pub inferences: u64,
    /// Calls of the model.
    pub executions: u64,
    /// Requests in calls that have begun, whether they have ended or not.
    pub taken: u64,
    /// Requests in calls of the model's `execute` that have returned.
    pub computed: u64,
    /// The total time that requests have waited.
    pub queue: Duration,
    /// Time from the beginning of a call to the beginning of the model's `execute`, for each of its requests, taken together:
    /// the wait for the GIL, and the conversion of requests to Python objects.
    pub compute_input: Duration,
    /// The total time of requests in the model's `execute`.
    pub compute: Duration,
    /// Time from the end of `execute` to the end of the call, for each of its requests, taken together: the sending of responses.
    pub compute_output: Duration,
    /// Time from a request to its last response, of those that succeeded, taken together.
    pub success_time: Duration,
    /// The same of those that have failed.
    pub failed_time: Duration,
    /// When the last request succeeded: time since 1970, in whole milliseconds. Zero if none did.
    pub last_inference: Duration,
}

/// The times of the model's calls with one batch size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchStatistics {
    /// Places of the batch: the batch sizes of its requests, taken together.
    pub size: usize,
    /// Calls whose `execute` has returned.
    pub executions: u64,
    /// Time from the beginning of a call to the beginning of `execute`, taken together.
    pub compute_input: Duration,
    /// Time in `execute`, taken together.
    pub compute: Duration,
    /// Time from the end of `execute` to the end of the call, taken together.
    pub compute_output: Duration,
}

/// A batch that is executed: its requests, and the places that they take.
#[derive(Clone, Copy)]
pub(crate) struct Batch {
    pub(crate) requests: usize,
    pub(crate) size: usize,
}

/// Failed requests by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failures {
    /// The queue was full, they waited too long in it, or the model was being unloaded.
    pub rejected: u64,
    /// Nobody waited any more.
    pub cancelled: u64,
    /// The model answered with an error.
    pub model: u64,
    /// They did not fit the model.
    pub other: u64,
}

/// The latencies of requests in the last minute.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Latencies {
    /// From a request to its last response, of those that succeeded.
    pub request: Latency,
    /// In the queue.
    pub queue: Latency,
    /// Up to the model's `execute`, as [`Statistics::compute_input`].
    pub compute_input: Latency,
    /// In the model's `execute`, for each of its requests.
    pub compute: Latency,
    /// After it, as [`Statistics::compute_output`].
    pub compute_output: Latency,
}

/// How a request has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Success,
    Rejected,
    Cancelled,
    ByModel,
    Other,
}

impl Ended {
    /// A failure, of a request that an instance has taken or has not.
    pub(crate) fn of(code: Code, has_begun: bool) -> Self {
        match (code, has_begun) {
            (Code::Cancelled, _) => Self::Cancelled,
            (_, true) => Self::ByModel,
            (Code::Unavailable, false) => Self::Rejected,
            _ => Self::Other,
        }
    }
}

/// Counters behind [`Statistics`].
#[derive(Default)]
pub(crate) struct Counters {
    success: AtomicU64,
    rejected: AtomicU64,
    cancelled: AtomicU64,
    by_model: AtomicU64,
    other: AtomicU64,
    inferences: AtomicU64,
    executions: AtomicU64,
    taken: AtomicU64,
    computed: AtomicU64,
    queue: AtomicU64,
    compute_input: AtomicU64,
    compute: AtomicU64,
    compute_output: AtomicU64,
    success_time: AtomicU64,
    failed_time: AtomicU64,
    last_inference: AtomicU64,
    batches: Mutex<BTreeMap<usize, BatchStatistics>>,
    recent_requests: Recent,
    recent_waits: Recent,
    recent_inputs: Recent,
    recent_calls: Recent,
    recent_outputs: Recent,
}

impl Counters {
    /// A call of the model with requests that have waited for so long.
    pub(crate) fn began(&self, waited: impl Iterator<Item = Duration>) {
        self.executions.fetch_add(1, Ordering::Relaxed);
        for waited in waited {
            self.taken.fetch_add(1, Ordering::Relaxed);
            add(&self.queue, waited, 1);
            self.recent_waits.record(waited, 1);
        }
    }

    /// `execute` has returned from a call: how long it took before, and how long inside.
    pub(crate) fn computed(&self, batch: Batch, before: Duration, inside: Duration) {
        let requests = batch.requests;
        self.note(batch, |all| {
            all.executions += 1;
            all.compute_input += before;
            all.compute += inside;
        });
        self.computed.fetch_add(requests as u64, Ordering::Relaxed);
        add(&self.compute_input, before, requests);
        add(&self.compute, inside, requests);
        self.recent_inputs.record(before, requests);
        self.recent_calls.record(inside, requests);
    }

    /// A call has ended, so long after `execute` has returned.
    pub(crate) fn sent(&self, batch: Batch, took: Duration) {
        let requests = batch.requests;
        self.note(batch, |all| all.compute_output += took);
        add(&self.compute_output, took, requests);
        self.recent_outputs.record(took, requests);
    }

    fn note(&self, batch: Batch, change: impl FnOnce(&mut BatchStatistics)) {
        // One of stand-ins alone is nobody's.
        if batch.requests > 0 {
            let mut batches = self.batches.lock();
            let fresh = || BatchStatistics { size: batch.size, ..BatchStatistics::default() };
            change(batches.entry(batch.size).or_insert_with(fresh));
        }
    }

    /// The times of calls, by the size of their batches.
    pub(crate) fn batches(&self) -> Vec<BatchStatistics> {
        self.batches.lock().values().copied().collect()
    }

    /// A request of this batch size has ended, so long after it began.
    pub(crate) fn ended(&self, size: usize, ended: Ended, took: Duration) {
        let counter = match ended {
            Ended::Success => &self.success,
            Ended::Rejected => &self.rejected,
            Ended::Cancelled => &self.cancelled,
            Ended::ByModel => &self.by_model,
            Ended::Other => &self.other,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        if ended != Ended::Success {
            return add(&self.failed_time, took, 1);
        }
        self.inferences.fetch_add(size as u64, Ordering::Relaxed);
        add(&self.success_time, took, 1);
        self.recent_requests.record(took, 1);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.last_inference.fetch_max(now.as_millis() as u64, Ordering::Relaxed);
    }

    pub(crate) fn latencies(&self) -> Latencies {
        Latencies {
            request: self.recent_requests.read(),
            queue: self.recent_waits.read(),
            compute_input: self.recent_inputs.read(),
            compute: self.recent_calls.read(),
            compute_output: self.recent_outputs.read(),
        }
    }

    pub(crate) fn read(&self) -> Statistics {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let time = |counter: &AtomicU64| Duration::from_nanos(of(counter));
        let failures = Failures {
            rejected: of(&self.rejected),
            cancelled: of(&self.cancelled),
            model: of(&self.by_model),
            other: of(&self.other),
        };
        let Failures { rejected, cancelled, model, other } = failures;
        Statistics {
            success: of(&self.success),
            failed: rejected + cancelled + model + other,
            failures,
            inferences: of(&self.inferences),
            executions: of(&self.executions),
            taken: of(&self.taken),
            computed: of(&self.computed),
            queue: time(&self.queue),
            compute_input: time(&self.compute_input),
            compute: time(&self.compute),
            compute_output: time(&self.compute_output),
            success_time: time(&self.success_time),
            failed_time: time(&self.failed_time),
            last_inference: Duration::from_millis(of(&self.last_inference)),
        }
    }
}

/// Adds a duration for each of so many requests.
fn add(counter: &AtomicU64, time: Duration, requests: usize) {
    counter.fetch_add((time.as_nanos() as u64).saturating_mul(requests as u64), Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::{Code, Ended};

    #[test]
    fn a_failure_has_a_reason() {
        assert_eq!(Ended::of(Code::Unavailable, false), Ended::Rejected);
        assert_eq!(Ended::of(Code::Unavailable, true), Ended::ByModel);
        assert_eq!(Ended::of(Code::InvalidArgument, false), Ended::Other);
        assert_eq!(Ended::of(Code::InvalidArgument, true), Ended::ByModel);
        assert_eq!(Ended::of(Code::Cancelled, false), Ended::Cancelled);
        assert_eq!(Ended::of(Code::Cancelled, true), Ended::Cancelled);
    }
}
