//! The chance that a thread had to run since some moment: on a busy machine it waits for a processor, and reacts late.

use std::fs;
use std::time::{Duration, Instant};

/// A thread at the time from which it can react.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReactionTime {
    task: libc::pid_t,
    begin: Instant,
    at: Option<Spent>,
}

/// The time that a thread has spent since it began, as the kernel counts it.
#[derive(Clone, Copy, Debug)]
struct Spent {
    running: Duration,
    /// Without a wait that still lasts: the kernel adds that when the thread gets a processor.
    waiting: Duration,
}

impl ReactionTime {
    /// The thread can react from now on. `task` is its number, as gettid(2) gives it.
    pub(crate) fn begin(task: libc::pid_t) -> Self {
        Self { task, begin: Instant::now(), at: Spent::of(task) }
    }

    /// How long the thread has run or slept since then: the time that has passed, less its waits for a processor.
    /// For a thread that does not sleep now, it is its run time. All time counts where the kernel has no such figures.
    pub(crate) fn used(&self) -> Duration {
        let passed = self.begin.elapsed();
        let (Some(before), Some(now)) = (self.at, Spent::of(self.task)) else { return passed };
        if sleeps(self.task).unwrap_or(true) {
            passed.saturating_sub(now.waiting.saturating_sub(before.waiting))
        } else {
            now.running.saturating_sub(before.running)
        }
    }
}

impl ReactionTime {
    /// Whether the thread sleeps, has ended, or has run since then. Where the kernel has no figures it counts as having run.
    pub(crate) fn was_taken(&self) -> bool {
        let (Some(before), Some(now)) = (self.at, Spent::of(self.task)) else { return true };
        now.running > before.running || sleeps(self.task).unwrap_or(true)
    }
}

impl Spent {
    /// From `schedstat` (Linux, Documentation/scheduler/sched-stats.rst): both in nanoseconds, before the number of
    /// timeslices.
    fn of(task: libc::pid_t) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/self/task/{task}/schedstat")).ok()?;
        let mut fields =
            text.split_whitespace().map(|field| field.parse().map(Duration::from_nanos));
        let (running, waiting) = (fields.next()?.ok()?, fields.next()?.ok()?);
        // The kernel does not count (`kernel.sched_schedstats` and CONFIG_SCHED_INFO).
        (!running.is_zero()).then_some(Self { running, waiting })
    }
}

/// Whether a thread sleeps: its state is neither that of one that runs nor that of one that could (proc_pid_stat(5)).
pub(crate) fn sleeps(task: libc::pid_t) -> Option<bool> {
    let text = fs::read_to_string(format!("/proc/self/task/{task}/stat")).ok()?;
    // The name may have any byte.
    let (_, fields) = text.rsplit_once(')')?;
    Some(fields.split_whitespace().next()? != "R")
}

#[cfg(test)]
mod tests {
    use super::*;
    use hydrozoa_loader::thread_number as task;
    use std::hint::black_box;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn time_that_a_thread_runs_counts_and_time_that_it_waits_for_a_processor_does_not() {
        let (tasks, list) = mpsc::channel();
        let processors = thread::available_parallelism().unwrap().get();
        let end = Instant::now() + Duration::from_millis(600);
        // Four threads for each processor: each runs for a quarter of the time.
        thread::scope(|scope| {
            for _ in 0..processors * 4 {
                let tasks = tasks.clone();
                scope.spawn(move || {
                    tasks.send(task()).unwrap();
                    while Instant::now() < end {
                        black_box((0..1000).sum::<u64>());
                    }
                });
            }
            let chances: Vec<ReactionTime> =
                list.iter().take(processors * 4).map(ReactionTime::begin).collect();
            let begin = Instant::now();
            thread::sleep(Duration::from_millis(400));
            let used: Duration = chances.iter().map(ReactionTime::used).sum();
            let had = begin.elapsed() * processors as u32;
            assert!(used > Duration::from_millis(10) && used < had * 2, "{used:?} of {had:?}");
        });
    }

    #[test]
    fn time_that_a_thread_sleeps_counts() {
        let (tasks, list) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                tasks.send(task()).unwrap();
                let _ = wait.recv();
            });
            let chance = ReactionTime::begin(list.recv().unwrap());
            let begin = Instant::now();
            thread::sleep(Duration::from_millis(200));
            assert!(chance.used() > begin.elapsed() / 2, "{:?}", chance.used());
            drop(go);
        });
    }
}
