//! The current and past work of a model's instances.

use crate::figures::last_minute::{PART, PARTS};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The state of a model's instance.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InstanceState {
    /// Its name.
    pub name: String,
    /// The position of its interpreter in the model's pool.
    pub index: usize,
    /// Requests in the execution that is under way.
    pub requests: usize,
    /// How long that execution has been running. `None` if the instance is idle.
    pub executing: Option<Duration>,
    /// Executions started.
    pub executions: u64,
    /// Total time in executions, including the one under way.
    pub busy: Duration,
    /// The share of the last minute in which it has executed: 0 to 1.
    pub load: f64,
    /// Time that executions waited for the GIL at their beginning, while Python threads of the interpreter held it.
    pub gil_wait: Duration,
    /// How often its interpreter was replaced.
    pub restarts: u64,
    /// How often its code has crashed, contained
    /// ([`Defaults::contain_crashes`](crate::Defaults::contain_crashes)).
    pub crashes: u64,
}

/// Figures behind [`InstanceState`].
pub(crate) struct Activity {
    name: String,
    state: Mutex<ActivityState>,
    executions: AtomicU64,
    /// In nanoseconds.
    gil_wait: AtomicU64,
    crashes: AtomicU64,
}

struct ActivityState {
    now: Option<Execution>,
    /// Time in executions that have ended.
    busy: Duration,
    began: Instant,
    /// The number of the part of the last minute that is written.
    current: u32,
    /// Time in executions that have ended, in each of these parts.
    parts: [Duration; PARTS],
}

/// An execution that is under way.
#[derive(Clone, Copy)]
struct Execution {
    /// How many have begun with it.
    number: u64,
    since: Instant,
    requests: usize,
}

/// The execution of this number is under way until this is dropped.
#[must_use]
pub(crate) struct Running<'a> {
    activity: &'a Activity,
    number: u64,
}

impl Activity {
    /// The instance's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn new(name: String) -> Self {
        let parts = [Duration::ZERO; PARTS];
        let state = ActivityState {
            now: None,
            busy: Duration::ZERO,
            began: Instant::now(),
            current: 0,
            parts,
        };
        Self {
            name,
            state: Mutex::new(state),
            executions: AtomicU64::new(0),
            gil_wait: AtomicU64::new(0),
            crashes: AtomicU64::new(0),
        }
    }

    /// Begins an execution of so many requests.
    pub(crate) fn begin(&self, requests: usize) -> Running<'_> {
        let number = self.executions.fetch_add(1, Ordering::Relaxed) + 1;
        self.state.lock().now = Some(Execution { number, since: Instant::now(), requests });
        Running { activity: self, number }
    }

    /// The instance is given up: work that goes on in its interpreter no longer counts as the instance's.
    pub(crate) fn give_up(&self) {
        self.state.lock().end(|_| true);
    }

    /// Its code has crashed.
    pub(crate) fn crashed(&self) {
        self.crashes.fetch_add(1, Ordering::Relaxed);
    }

    /// Its execution has got the GIL, after so long.
    pub(crate) fn waited(&self, took: Duration) {
        self.gil_wait.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    /// The state of the instance with this interpreter.
    pub(crate) fn read(&self, index: usize, restarts: u64) -> InstanceState {
        let now = Instant::now();
        let mut state = self.state.lock();
        let executing = state.now.map(|execution| now.saturating_duration_since(execution.since));
        InstanceState {
            name: self.name.clone(),
            index,
            requests: state.now.map_or(0, |execution| execution.requests),
            executing,
            executions: self.executions.load(Ordering::Relaxed),
            busy: state.busy + executing.unwrap_or_default(),
            load: state.load(now),
            gil_wait: Duration::from_nanos(self.gil_wait.load(Ordering::Relaxed)),
            restarts,
            crashes: self.crashes.load(Ordering::Relaxed),
        }
    }
}

impl ActivityState {
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

    /// The execution under way ends, if it is this one.
    fn end(&mut self, is_it: impl FnOnce(&Execution) -> bool) {
        if let Some(execution) = self.now.take_if(|execution| is_it(execution)) {
            self.note(execution.since, Instant::now());
        }
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
        let running =
            self.now.map(|execution| now.saturating_duration_since(execution.since.max(first)));
        let busy = self.parts.iter().sum::<Duration>() + running.unwrap_or_default();
        let span = now.saturating_duration_since(first).as_secs_f64();
        if span > 0.0 { (busy.as_secs_f64() / span).min(1.0) } else { 0.0 }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // Another one may be under way, if the instance was given up meanwhile.
        self.activity.state.lock().end(|execution| execution.number == self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::{Activity, Execution};
    use crate::figures::last_minute::{PART, PARTS};
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
    fn an_execution_that_was_given_up_is_not_taken_for_the_next_one() {
        let activity = Activity::new(String::new());
        let stuck = activity.begin(2);
        activity.give_up();
        let given_up = activity.read(0, 0);
        assert_eq!((given_up.executing, given_up.requests, given_up.executions), (None, 0, 1));
        let next = activity.begin(3);
        drop(stuck);
        let running = activity.read(0, 1);
        assert_eq!(
            (running.executing.is_some(), running.requests, running.executions),
            (true, 3, 2)
        );
        drop(next);
        assert_eq!(activity.read(0, 1).executing, None);
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
        state.now = Some(Execution { number: 1, since: began + PART * 109, requests: 1 });
        assert_eq!(state.load(began + PART * 111), 0.5);
    }
}
