//! The queue of a model: which requests wait, which are served next, and which are served together.

mod idle;
mod pending;
mod scheduler;
mod sequences;

pub(crate) use pending::{Begun, Pending, Process};
pub(crate) use scheduler::Scheduler;

use crate::config::{DynamicBatching, QueuePolicy, TimeoutAction};
use crate::request::{Code, Failure, Request};
use idle::{Idle, Sleeper};
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A request in a queue.
pub(crate) struct Queued {
    pub(crate) request: Request,
    pub(crate) pending: Arc<Pending>,
    /// How many of a batch's places it takes.
    pub(crate) size: usize,
    pub(crate) since: Instant,
    /// After this it has waited too long.
    pub(crate) deadline: Option<Instant>,
    /// Whether it only fills a place of a batch: no client sent it.
    pub(crate) is_stand_in: bool,
}

/// Why a request is not in a queue.
#[derive(Debug)]
pub(crate) enum Refusal {
    Failed(Failure),
    /// The model takes no further requests. Another version may take this one.
    Closed(Box<Request>),
}

impl Refusal {
    /// The same for a client.
    pub(crate) fn failure(self, model: &str) -> Failure {
        match self {
            Refusal::Failed(failure) => failure,
            Refusal::Closed(_) => Failure::new(
                Code::Unavailable,
                format!("the model is being unloaded (model '{model}')"),
            ),
        }
    }
}

impl From<Failure> for Refusal {
    fn from(failure: Failure) -> Self {
        Refusal::Failed(failure)
    }
}

/// How a model's requests wait and are joined.
pub(crate) struct Rules {
    /// 0 if the model takes one request at a time.
    max_batch_size: usize,
    batching: Option<DynamicBatching>,
    /// Inputs whose extents must be the same in a batch.
    equal: Vec<String>,
}

impl Rules {
    pub(crate) fn new(
        max_batch_size: usize,
        batching: Option<DynamicBatching>,
        equal: Vec<String>,
    ) -> Self {
        Self { max_batch_size, batching, equal }
    }

    fn level(&self, request: &Request) -> u64 {
        match &self.batching {
            Some(batching) if batching.priority_levels > 0 => match request.priority {
                0 => batching.default_priority_level,
                priority => priority.min(batching.priority_levels),
            },
            _ => 1,
        }
    }

    fn policy(&self, level: u64) -> QueuePolicy {
        self.batching.as_ref().map(|batching| batching.policy(level)).unwrap_or_default()
    }

    fn delay(&self) -> Duration {
        self.batching.as_ref().map(DynamicBatching::delay).unwrap_or_default()
    }

    /// Whether two requests can be in one batch.
    pub(crate) fn fit(&self, one: &Request, other: &Request) -> bool {
        let extents = |request: &Request, name: &str| {
            let input = request.inputs.iter().find(|input| input.name == name);
            input.and_then(|input| input.shape.get(1..)).map(<[i64]>::to_vec)
        };
        self.equal.iter().all(|name| extents(one, name) == extents(other, name))
    }

    /// The number of requests of a line that are a batch now, or when to look again.
    pub(crate) fn batch<'a>(
        &self,
        line: impl ExactSizeIterator<Item = &'a Queued> + Clone,
        now: Instant,
    ) -> Result<usize, Instant> {
        let length = line.len();
        let first = line.clone().next().expect("nobody asks for an empty line");
        let Some(batching) = self.batching.as_ref().filter(|_| self.max_batch_size > 0) else {
            return Ok(1);
        };
        let (mut count, mut size) = (0, 0);
        // The greatest number of requests that give a preferred size.
        let mut preferred = None;
        for queued in line {
            if count > 0
                && (size + queued.size > self.max_batch_size
                    || !self.fit(&first.request, &queued.request))
            {
                break;
            }
            (count, size) = (count + 1, size + queued.size);
            if batching.preferred_batch_size.iter().any(|wanted| *wanted as usize == size) {
                preferred = Some(count);
            }
        }
        // More cannot come into this batch.
        let is_full = count < length || size >= self.max_batch_size;
        let until = first.since + self.delay();
        match preferred {
            Some(count) => Ok(count),
            None if is_full || until <= now => Ok(count),
            None => Err(until),
        }
    }
}

/// Requests that wait for an instance.
pub(crate) struct Queue {
    rules: Rules,
    state: Mutex<QueueState>,
}

#[derive(Default)]
struct QueueState {
    /// By level: 1 is served first.
    lines: BTreeMap<u64, Line>,
    is_closed: bool,
    /// Idle instances.
    idle: Idle,
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<Queued>,
    /// Requests that have waited too long, and go on waiting.
    delayed: VecDeque<Queued>,
}

impl Line {
    fn len(&self) -> usize {
        self.waiting.len() + self.delayed.len()
    }
}

impl Queue {
    pub(crate) fn new(rules: Rules) -> Self {
        Self { rules, state: Mutex::default() }
    }

    /// Requests that wait.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().lines.values().map(Line::len).sum()
    }

    /// When the oldest waiting request arrived.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        let state = self.state.lock();
        let firsts = |line: &Line| {
            let first = line.waiting.front().map(|queued| queued.since);
            // Delayed requests are not sorted by age.
            first.into_iter().chain(line.delayed.iter().map(|queued| queued.since)).min()
        };
        state.lines.values().filter_map(firsts).min()
    }

    /// Puts a request into the queue.
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
        let level = self.rules.level(&request);
        let policy = self.rules.policy(level);
        let since = Instant::now();
        let mut timeout = policy.default_timeout_microseconds;
        if policy.allow_timeout_override
            && request.timeout > 0
            && (timeout == 0 || request.timeout < timeout)
        {
            timeout = request.timeout;
        }
        let deadline = (timeout > 0).then(|| since + Duration::from_micros(timeout));
        let sleeper = {
            let mut state = self.state.lock();
            if state.is_closed {
                return Err(Refusal::Closed(Box::new(request)));
            }
            let line = state.lines.entry(level).or_default();
            let limit = policy.max_queue_size as usize;
            if limit > 0 && line.len() >= limit {
                let words = format!("Exceeds maximum queue size (model '{model}')");
                return Err(Failure::new(Code::Unavailable, words).into());
            }
            let queued = Queued { request, pending, size, since, deadline, is_stand_in: false };
            line.waiting.push_back(queued);
            state.idle.last()
        };
        if let Some(sleeper) = sleeper {
            sleeper.wake();
        }
        Ok(())
    }

    /// Waits for the next batch. `None` when the queue is closed and empty, or `is_over` is set.
    pub(crate) fn next(&self, is_over: &AtomicBool) -> Option<Vec<Queued>> {
        let mut state = self.state.lock();
        loop {
            if is_over.load(Ordering::SeqCst) {
                // The request that woke this instance is for another one.
                if let Some(other) = state.somebody_else() {
                    other.wake();
                }
                return None;
            }
            let now = Instant::now();
            let mut gone = state.expire(&self.rules, now);
            let batch = state.batch(&self.rules, now);
            if !gone.is_empty() {
                parking_lot::MutexGuard::unlocked(&mut state, || {
                    gone.drain(..).for_each(Gone::tell)
                });
                if !matches!(batch, Found::Batch(_)) {
                    continue;
                }
            }
            match batch {
                Found::Batch(batch) => {
                    // Others of the queue may be a batch, too.
                    let other = state.somebody_else();
                    drop(state);
                    if let Some(other) = other {
                        other.wake();
                    }
                    return Some(batch);
                }
                Found::Later(until) => Idle::wait(&mut state, |state| &mut state.idle, Some(until)),
                Found::Nothing if state.is_closed => return None,
                Found::Nothing => Idle::wait(&mut state, |state| &mut state.idle, None),
            }
        }
    }

    /// Takes no further requests. Those in it are still served.
    pub(crate) fn close(&self) {
        self.state.lock().is_closed = true;
        self.wake();
    }

    /// Makes all instances that wait for a batch check whether to go on.
    pub(crate) fn wake(&self) {
        let all = self.state.lock().idle.all();
        all.into_iter().for_each(Sleeper::wake);
    }

    /// Takes out all waiting requests: nobody will serve them.
    pub(crate) fn fail_all(&self, failure: &Failure) {
        let lines = std::mem::take(&mut self.state.lock().lines);
        for queued in
            lines.into_values().flat_map(|line| line.waiting.into_iter().chain(line.delayed))
        {
            queued.pending.fail(failure.clone());
        }
    }
}

/// The work found for an instance.
pub(crate) enum Found {
    Batch(Vec<Queued>),
    Later(Instant),
    Nothing,
}

/// A request that leaves the queue without being served.
enum Gone {
    Cancelled(Queued),
    Late(Queued),
}

impl Gone {
    fn tell(self) {
        let (queued, code, words) = match self {
            Gone::Cancelled(queued) => {
                (queued, Code::Cancelled, "the request was cancelled while it waited")
            }
            Gone::Late(queued) => (queued, Code::Unavailable, "Request timeout expired"),
        };
        queued.pending.fail(Failure::new(code, words));
    }
}

impl QueueState {
    /// An idle instance, if requests wait.
    fn somebody_else(&mut self) -> Option<Sleeper> {
        if self.lines.values().all(|line| line.len() == 0) { None } else { self.idle.last() }
    }

    /// Takes out requests that wait in vain.
    fn expire(&mut self, rules: &Rules, now: Instant) -> Vec<Gone> {
        let mut gone = Vec::new();
        for (level, line) in &mut self.lines {
            let is_delayed = rules.policy(*level).timeout_action == TimeoutAction::Delay;
            let leaves = |queued: &mut Queued| {
                queued.pending.is_cancelled()
                    || queued.deadline.is_some_and(|deadline| deadline <= now)
            };
            for mut queued in extract(&mut line.waiting, leaves) {
                if queued.pending.is_cancelled() {
                    gone.push(Gone::Cancelled(queued));
                } else if is_delayed {
                    queued.deadline = None;
                    line.delayed.push_back(queued);
                } else {
                    gone.push(Gone::Late(queued));
                }
            }
            let cancelled = extract(&mut line.delayed, |queued| queued.pending.is_cancelled());
            gone.extend(cancelled.into_iter().map(Gone::Cancelled));
        }
        gone
    }

    /// The next batch, from the first level that has one. Delayed requests come after all others of the level.
    fn batch(&mut self, rules: &Rules, now: Instant) -> Found {
        let mut later: Option<Instant> = None;
        for line in self.lines.values_mut() {
            for waiting in [&mut line.waiting, &mut line.delayed] {
                if waiting.is_empty() {
                    continue;
                }
                match rules.batch(waiting.iter(), now) {
                    Ok(count) => return Found::Batch(waiting.drain(..count).collect()),
                    Err(until) => later = Some(later.map_or(until, |known| known.min(until))),
                }
            }
        }
        later.map_or(Found::Nothing, Found::Later)
    }
}

/// Takes out those for which `leaves` holds. The order of the others stays.
fn extract(
    line: &mut VecDeque<Queued>,
    mut leaves: impl FnMut(&mut Queued) -> bool,
) -> Vec<Queued> {
    if !line.iter_mut().any(&mut leaves) {
        return Vec::new();
    }
    let mut taken = Vec::new();
    for mut queued in std::mem::take(line) {
        if leaves(&mut queued) {
            taken.push(queued);
        } else {
            line.push_back(queued);
        }
    }
    taken
}

#[cfg(test)]
mod tests;
