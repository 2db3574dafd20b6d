//! Which requests an instance of a model gets next.

use super::sequences::Sequences;
use crate::config::ModelConfig;
use crate::queue::{Pending, Queue, Queued, Refusal, Rules};
use crate::request::{Failure, Request};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

/// Requests that wait for the instances of a model.
pub(crate) enum Scheduler {
    /// Each request is for itself, and for any instance.
    Queue(Queue),
    /// Requests belong to sequences, and a sequence to an instance.
    Sequences(Box<Sequences>),
}

impl Scheduler {
    /// For a model with so many instances.
    pub(crate) fn new(config: &ModelConfig, instances: usize) -> Self {
        let equal = config.inputs().iter().filter(|input| !input.allow_ragged_batch);
        let equal = equal.map(|input| input.name.clone()).collect();
        let most = config.max_batch_size();
        match config.sequence_batching() {
            Some(batching) => {
                let sequences =
                    Sequences::new(batching, most, equal, instances, config.is_decoupled());
                Scheduler::Sequences(Box::new(sequences))
            }
            None => Scheduler::Queue(Queue::new(Rules::new(
                most,
                config.dynamic_batching().cloned(),
                equal,
            ))),
        }
    }

    /// Requests that wait.
    pub(crate) fn len(&self) -> usize {
        match self {
            Scheduler::Queue(queue) => queue.len(),
            Scheduler::Sequences(sequences) => sequences.len(),
        }
    }

    /// When the oldest waiting request arrived.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        match self {
            Scheduler::Queue(queue) => queue.oldest(),
            Scheduler::Sequences(sequences) => sequences.oldest(),
        }
    }

    /// Takes a request.
    ///
    /// # Errors
    ///
    /// The reason for the refusal. The client is not told here.
    pub(crate) fn put(
        &self,
        model: &str,
        request: Request,
        pending: Arc<Pending>,
        size: usize,
    ) -> Result<(), Refusal> {
        match self {
            Scheduler::Queue(queue) => queue.put(model, request, pending, size),
            Scheduler::Sequences(sequences) => sequences.put(model, request, pending, size),
        }
    }

    /// Waits for the next batch of an instance, which has served its former one. `None` when no more will come, or `is_over`
    /// says that the instance was given up.
    pub(crate) fn next(&self, instance: usize, is_over: &AtomicBool) -> Option<Vec<Queued>> {
        match self {
            Scheduler::Queue(queue) => queue.next(is_over),
            Scheduler::Sequences(sequences) => sequences.next(instance, is_over),
        }
    }

    /// An instance was given up: it gets no further batch, and its sequences end.
    pub(crate) fn fail_instance(&self, instance: usize, failure: &Failure) {
        match self {
            Scheduler::Queue(queue) => queue.wake(),
            Scheduler::Sequences(sequences) => sequences.fail_instance(instance, failure),
        }
    }

    /// Takes no further requests. Those that wait are still served.
    pub(crate) fn close(&self) {
        match self {
            Scheduler::Queue(queue) => queue.close(),
            Scheduler::Sequences(sequences) => sequences.close(),
        }
    }

    /// Takes out all waiting requests: nobody will serve them.
    pub(crate) fn fail_all(&self, failure: &Failure) {
        match self {
            Scheduler::Queue(queue) => queue.fail_all(failure),
            Scheduler::Sequences(sequences) => sequences.fail_all(failure),
        }
    }
}
