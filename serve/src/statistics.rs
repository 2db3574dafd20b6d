//! What a model has done.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

/// Counts and durations since a model was loaded, by the names of the protocol's statistics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Requests that have got their last response.
    pub success: u64,
    /// Requests that have failed.
    pub failed: u64,
    /// Inferences: the batch sizes of the requests that succeeded, taken together.
    pub inferences: u64,
    /// Calls of the model.
    pub executions: u64,
    /// Time that requests have waited, taken together.
    pub queue: Duration,
    /// Time that requests have been in the model, taken together.
    pub compute: Duration,
    /// Time from a request to its last response, of those that succeeded, taken together.
    pub success_time: Duration,
    /// The same of those that have failed.
    pub failed_time: Duration,
    /// When the last request has succeeded: time since 1970, in whole milliseconds. Zero if none has.
    pub last_inference: Duration,
}

/// Counters behind [`Statistics`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    success: AtomicU64,
    failed: AtomicU64,
    inferences: AtomicU64,
    executions: AtomicU64,
    queue: AtomicU64,
    compute: AtomicU64,
    success_time: AtomicU64,
    failed_time: AtomicU64,
    last_inference: AtomicU64,
}

impl Counters {
    /// A call of the model with requests that have waited for so long.
    pub(crate) fn began(&self, waited: impl Iterator<Item = Duration>) {
        self.executions.fetch_add(1, Ordering::Relaxed);
        self.queue.fetch_add(waited.map(nanoseconds).sum(), Ordering::Relaxed);
    }

    /// The model has returned from a call with so many requests.
    pub(crate) fn returned(&self, requests: usize, took: Duration) {
        self.compute
            .fetch_add(nanoseconds(took).saturating_mul(requests as u64), Ordering::Relaxed);
    }

    /// A request of this batch size has ended, so long after it began.
    pub(crate) fn ended(&self, size: usize, is_success: bool, took: Duration) {
        if is_success {
            self.success.fetch_add(1, Ordering::Relaxed);
            self.inferences.fetch_add(size as u64, Ordering::Relaxed);
            self.success_time.fetch_add(nanoseconds(took), Ordering::Relaxed);
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            self.last_inference.fetch_max(now.as_millis() as u64, Ordering::Relaxed);
        } else {
            self.failed.fetch_add(1, Ordering::Relaxed);
            self.failed_time.fetch_add(nanoseconds(took), Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> Statistics {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Statistics {
            success: of(&self.success),
            failed: of(&self.failed),
            inferences: of(&self.inferences),
            executions: of(&self.executions),
            queue: Duration::from_nanos(of(&self.queue)),
            compute: Duration::from_nanos(of(&self.compute)),
            success_time: Duration::from_nanos(of(&self.success_time)),
            failed_time: Duration::from_nanos(of(&self.failed_time)),
            last_inference: Duration::from_millis(of(&self.last_inference)),
        }
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    duration.as_nanos().try_into().unwrap_or(u64::MAX)
}
