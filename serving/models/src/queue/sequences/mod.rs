//! Requests that belong to sequences: each sequence has a place of one instance, which sees its requests in order, one at
//! a time.
//!
//! Names and rules are those of Triton's sequence batcher (github.com/triton-inference-server/core,
//! src/sequence_batch_scheduler). Two rules are gentler here. A sequence is idle only while none of its requests waits or
//! runs. And a sequence that begins anew behind its own end waits until the former one is served: so a model that keeps
//! state by correlation id never sees two sequences of one id at a time.

mod controls;
mod seating;

use crate::config::{DynamicBatching, SequenceBatching, Strategy};
use crate::queue::{Found, Pending, Queued, Refusal, Rules};
use crate::request::{Code, CorrelationId, Failure, Request};
use controls::Controls;
use parking_lot::{Condvar, Mutex, MutexGuard};
use seating::{Concerned, Gone, Seating, Seats};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The sequences of a model.
pub(crate) struct Sequences {
    policy: Policy,
    state: Mutex<Seating>,
    /// One for each instance.
    changed: Vec<Condvar>,
}

/// How sequences wait and are joined.
struct Policy {
    strategy: Strategy,
    rules: Rules,
    controls: Controls,
    /// How long a sequence without a request keeps its place.
    idle: Duration,
    /// Sequences that an instance serves at a time.
    places: usize,
    is_decoupled: bool,
}

impl Policy {
    /// `equal` are the inputs whose extents must be the same in a batch.
    fn new(
        batching: &SequenceBatching,
        max_batch_size: usize,
        equal: Vec<String>,
        is_decoupled: bool,
    ) -> Self {
        let (candidates, joined) = match &batching.strategy {
            Strategy::Direct { .. } => (None, None),
            Strategy::Oldest { candidates, preferred_batch_size, delay } => {
                let joined = DynamicBatching {
                    preferred_batch_size: preferred_batch_size.clone(),
                    max_queue_delay_microseconds: delay.as_micros() as u64,
                    ..DynamicBatching::default()
                };
                (*candidates, Some(joined))
            }
        };
        Self {
            strategy: batching.strategy.clone(),
            rules: Rules::new(max_batch_size, joined, equal),
            controls: Controls::new(batching.controls.clone(), max_batch_size),
            idle: batching.idle,
            places: candidates.unwrap_or(max_batch_size.max(1)),
            is_decoupled,
        }
    }

    /// Refuses what can be no request of a sequence.
    fn check(&self, request: &Request, model: &str, size: usize) -> Result<(), Failure> {
        if size > 1 {
            return Err(Failure::invalid(format!(
                "inference request to model '{model}' must specify batch-size 1 due to requirements of sequence batcher"
            )));
        }
        let is_none = match &request.correlation_id {
            CorrelationId::Number(number) => *number == 0,
            CorrelationId::Text(text) => text.is_empty(),
        };
        if is_none {
            return Err(Failure::invalid(format!(
                "inference request to model '{model}' must specify a non-zero or non-empty correlation ID"
            )));
        }
        self.controls.check(&request.correlation_id, model)
    }

    /// A request that keeps a place, with nobody behind it.
    fn stand_in(&self, other: &Request, since: Instant) -> Queued {
        let pending = Arc::new(Pending::new(Box::new(|_| ()), self.is_decoupled));
        let request = self.controls.stand_in(other);
        Queued { request, pending, size: 1, since, deadline: None, is_stand_in: true }
    }
}

impl Sequences {
    pub(crate) fn new(
        batching: &SequenceBatching,
        max_batch_size: usize,
        equal: Vec<String>,
        instances: usize,
        is_decoupled: bool,
    ) -> Self {
        let policy = Policy::new(batching, max_batch_size, equal, is_decoupled);
        let seats = (0..instances).map(|_| Seats::new(policy.places)).collect();
        Self {
            policy,
            state: Mutex::new(Seating::new(seats)),
            changed: (0..instances).map(|_| Condvar::new()).collect(),
        }
    }

    /// Requests that wait.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().len()
    }

    /// Since when the request has waited that has waited longest.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        self.state.lock().longest_wait_since()
    }

    /// Puts a request behind those of its sequence.
    ///
    /// # Errors
    ///
    /// Why that cannot be. The client has not heard of it.
    pub(crate) fn put(
        &self,
        model: &str,
        request: Request,
        pending: Arc<Pending>,
        size: usize,
    ) -> Result<(), Refusal> {
        self.policy.check(&request, model, size)?;
        let since = Instant::now();
        let timeout = Some(request.timeout).filter(|timeout| *timeout > 0);
        let deadline = timeout.map(|timeout| since + Duration::from_micros(timeout));
        let queued = Queued { request, pending, size, since, deadline, is_stand_in: false };
        let wake = self.state.lock().put(model, queued)?;
        match wake {
            Concerned::One(instance) => drop(self.changed[instance].notify_one()),
            Concerned::All => self.wake_all(),
            Concerned::Nobody => {}
        }
        Ok(())
    }

    fn wake_all(&self) {
        for changed in &self.changed {
            changed.notify_one();
        }
    }

    /// The next batch of an instance, which has served its former one. Waits for it. `None` when no more will come, or
    /// whoever asks shall have no more.
    pub(crate) fn next(&self, instance: usize, is_over: &AtomicBool) -> Option<Vec<Queued>> {
        let mut state = self.state.lock();
        if !is_over.load(Ordering::SeqCst) {
            state.served(instance, Instant::now());
        }
        loop {
            if is_over.load(Ordering::SeqCst) {
                self.changed[instance].notify_one();
                return None;
            }
            let mut gone = Vec::new();
            let found = state.next(instance, &self.policy, Instant::now(), &mut gone);
            let is_batch = matches!(found, Found::Batch(_));
            if !gone.is_empty() {
                MutexGuard::unlocked(&mut state, || gone.drain(..).for_each(Gone::tell));
                if !is_batch {
                    continue;
                }
            }
            match found {
                Found::Batch(batch) => return Some(batch),
                Found::Later(until) => {
                    self.changed[instance].wait_until(&mut state, until);
                }
                Found::Nothing if state.is_closed() => return None,
                Found::Nothing => self.changed[instance].wait(&mut state),
            }
        }
    }

    /// Takes no further requests. Those that wait are still served.
    pub(crate) fn close(&self) {
        self.state.lock().close();
        self.wake_all();
    }

    /// Ends the sequences of an instance, since its state is lost. A thread that waits for its batches checks whether to go on.
    pub(crate) fn fail_instance(&self, instance: usize, failure: &Failure) {
        let gone = self.state.lock().end_sequences(instance, failure);
        self.changed[instance].notify_all();
        gone.into_iter().for_each(Gone::tell);
    }

    /// Takes out all who wait: nobody will serve them.
    pub(crate) fn fail_all(&self, failure: &Failure) {
        let waiting = self.state.lock().take_all();
        waiting.into_iter().for_each(|queued| queued.pending.fail(failure.clone()));
    }
}

/// Why a request was not served.
fn cancelled() -> Failure {
    Failure::new(Code::Cancelled, "a request of the sequence was cancelled while it waited")
}

fn late() -> Failure {
    Failure::new(Code::Unavailable, "timeout of the corresponding sequence has been expired")
}

#[cfg(test)]
mod tests;
