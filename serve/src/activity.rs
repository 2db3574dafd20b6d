//! What the instances of a model do, and have done.

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
    /// Time that executions have waited for the GIL at their begin: Python's own threads of the interpreter have had it.
    pub gil_wait: Duration,
    /// How often its interpreter was replaced.
    pub restarts: u64,
}

/// Figures behind [`InstanceState`].
pub(crate) struct Activity {
    name: String,
    now: Mutex<Option<(Instant, usize)>>,
    executions: AtomicU64,
    /// Nanoseconds of executions that have ended.
    busy: AtomicU64,
    gil_wait: AtomicU64,
}

/// An execution is under way until this is dropped.
#[must_use]
pub(crate) struct Running<'a>(&'a Activity);

impl Activity {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            now: Mutex::new(None),
            executions: AtomicU64::new(0),
            busy: AtomicU64::new(0),
            gil_wait: AtomicU64::new(0),
        }
    }

    /// Begins an execution of so many requests.
    pub(crate) fn begin(&self, requests: usize) -> Running<'_> {
        self.executions.fetch_add(1, Ordering::Relaxed);
        *self.now.lock() = Some((Instant::now(), requests));
        Running(self)
    }

    /// Its execution has got the GIL, after so long.
    pub(crate) fn waited(&self, took: Duration) {
        self.gil_wait.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }

    /// The state of the instance with this interpreter.
    pub(crate) fn read(&self, index: usize, restarts: u64) -> InstanceState {
        let of = |counter: &AtomicU64| Duration::from_nanos(counter.load(Ordering::Relaxed));
        // Under the lock an execution does not pass from one to the other.
        let now = self.now.lock();
        let (executing, done) = (now.map(|(since, _)| since.elapsed()), of(&self.busy));
        InstanceState {
            name: self.name.clone(),
            index,
            requests: now.map_or(0, |(_, requests)| requests),
            executing,
            executions: self.executions.load(Ordering::Relaxed),
            busy: done + executing.unwrap_or_default(),
            gil_wait: of(&self.gil_wait),
            restarts,
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let mut now = self.0.now.lock();
        let took = now.take().map(|(since, _)| since.elapsed()).unwrap_or_default();
        self.0.busy.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::Activity;
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
        drop(running);
        let ended = activity.read(3, 1);
        assert_eq!((ended.executing, ended.requests), (None, 0));
        assert!(ended.busy >= busy.busy, "{ended:?} {busy:?}");
        assert_eq!(ended.gil_wait, Duration::from_millis(2));
    }
}
