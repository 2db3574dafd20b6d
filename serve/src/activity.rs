//! What the instances of a model do, and have done.

use crate::recent::{PART, PARTS};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// An instance of a model, and what it does.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InstanceState {
    /// Its name.
    pub name: String,
    /// The position of its interpreter in the model's pool.
    pub index: usize,
    /// Requests in the execution that is under way.
    pub requests: usize,
    /// For how long that execution has run. `None` if there is none.
    pub executing: Option<Duration>,
    /// Executions that have begun.
    pub executions: u64,
    /// Time in executions, taken together. That of the execution under way is included.
    pub busy: Duration,
    /// The share of the last minute in which it has executed: 0 to 1.
    pub load: f64,
    /// Time that executions have waited for the GIL at their begin: Python's own threads of the interpreter have had it.
    pub gil_wait: Duration,
    /// How often its interpreter was replaced.
    pub restarts: u64,
}

/// Figures behind [`InstanceState`].
pub(crate) struct Activity {
    name: String,
    state: Mutex<State>,
    executions: AtomicU64,
    /// In nanoseconds.
    gil_wait: AtomicU64,
}

struct State {
    /// Since when an execution is under way, and with how many requests.
    now: Option<(Instant, usize)>,
    /// Time in executions that have ended.
    busy: Duration,
    began: Instant,
    /// The number of the part of the last minute that is written.
    current: u32,
    /// Time in executions that have ended, in each of these parts.
    parts: [Duration; PARTS],
}

/// An execution is under way until this is dropped.
#[must_use]
pub(crate) struct Running<'a>(&'a Activity);

impl Activity {
    pub(crate) fn new(name: String) -> Self {
        let parts = [Duration::ZERO; PARTS];
        let state =
            State { now: None, busy: Duration::ZERO, began: Instant::now(), current: 0, parts };
        let (executions, gil_wait) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { name, state: Mutex::new(state), executions, gil_wait }
    }

    /// Begins an execution of so many requests.
    pub(crate) fn begin(&self, requests: usize) -> Running<'_> {
        self.executions.fetch_add(1, Ordering::Relaxed);
        self.state.lock().now = Some((Instant::now(), requests));
        Running(self)
    }

    /// Its execution has got the GIL, after so long.
    pub(crate) fn waited(&self, took: Duration) {
        self.gil_wait.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    /// The state of the instance with this interpreter.
    pub(crate) fn read(&self, index: usize, restarts: u64) -> InstanceState {
        let now = Instant::now();
        let mut state = self.state.lock();
        let executing = state.now.map(|(since, _)| now.saturating_duration_since(since));
        InstanceState {
            name: self.name.clone(),
            index,
            requests: state.now.map_or(0, |(_, requests)| requests),
            executing,
            executions: self.executions.load(Ordering::Relaxed),
            busy: state.busy + executing.unwrap_or_default(),
            load: state.load(now),
            gil_wait: Duration::from_nanos(self.gil_wait.load(Ordering::Relaxed)),
            restarts,
        }
    }
}

impl State {
    fn number(&self, at: Instant) -> u32 {
        let elapsed = at.saturating_duration_since(self.began);
        (elapsed.as_nanos() / PART.as_nanos()) as u32
    }

    /// Forgets the parts that are over.
    fn advance(&mut self, now: Instant) {
        let number = self.number(now);
        for later in 0..number.saturating_sub(self.current).min(PARTS as u32) {
            self.parts[(number - later) as usize % PARTS] = Duration::ZERO;
        }
        self.current = self.current.max(number);
    }

    /// The first part that is kept.
    fn first(&self) -> u32 {
        self.current.saturating_sub(PARTS as u32 - 1)
    }

    /// Notes an execution that has ended.
    fn note(&mut self, from: Instant, to: Instant) {
        self.busy += to.saturating_duration_since(from);
        self.advance(to);
        for number in self.first().max(self.number(from))..=self.current {
            let begin = self.began + PART * number;
            let (begin, end) = (begin.max(from), (begin + PART).min(to));
            self.parts[number as usize % PARTS] += end.saturating_duration_since(begin);
        }
    }

    fn load(&mut self, now: Instant) -> f64 {
        self.advance(now);
        let first = self.began + PART * self.first();
        let running = self.now.map(|(since, _)| now.saturating_duration_since(since.max(first)));
        let busy = self.parts.iter().sum::<Duration>() + running.unwrap_or_default();
        let span = now.saturating_duration_since(first).as_secs_f64();
        if span > 0.0 { (busy.as_secs_f64() / span).min(1.0) } else { 0.0 }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if let Some((since, _)) = state.now.take() {
            state.note(since, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Activity;
    use crate::recent::{PART, PARTS};
    use std::time::Duration;

    #[test]
    fn an_instance_says_what_it_does_and_has_done() {
        let activity = Activity::new("m_0".to_owned());
        let idle = activity.read(3, 1);
        assert_eq!((idle.name.as_str(), idle.index, idle.restarts), ("m_0", 3, 1));
        assert_eq!((idle.executing, idle.requests, idle.busy), (None, 0, Duration::ZERO));
        let running = activity.begin(5);
        activity.waited(Duration::from_millis(2));
        std::thread::sleep(Duration::from_millis(3));
        let busy = activity.read(3, 1);
        assert_eq!((busy.requests, busy.executions), (5, 1));
        assert!(busy.executing.unwrap() >= Duration::from_millis(3));
        assert_eq!(busy.busy, busy.executing.unwrap());
        assert!(busy.load > 0.0);
        drop(running);
        let ended = activity.read(3, 1);
        assert_eq!((ended.executing, ended.requests), (None, 0));
        assert!(ended.busy >= busy.busy, "{ended:?} {busy:?}");
        assert_eq!(ended.gil_wait, Duration::from_millis(2));
    }

    #[test]
    fn the_load_is_that_of_the_last_minute() {
        let activity = Activity::new(String::new());
        let mut state = activity.state.lock();
        let began = state.began;
        // It begins before the second part and ends in the middle of the third.
        state.note(began + PART / 2, began + PART * 5 / 2);
        assert_eq!(state.load(began + PART * 4), 0.5);
        // Two parts are forgotten. Of the execution a half of one is left, in four.
        assert_eq!(state.load(began + PART * 6), 0.125);
        state.note(began, began + PART * 100);
        assert_eq!(state.load(began + PART * 100), 1.0);
        let parts = PARTS as u32;
        assert_eq!(state.load(began + PART * (100 + parts)), 0.0);
        state.now = Some((began + PART * 109, 1));
        assert_eq!(state.load(began + PART * 111), 0.5);
    }
}
