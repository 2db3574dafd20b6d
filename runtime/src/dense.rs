//! Interpreters that are settled by themselves while nobody uses them ([`Builder::dense`](crate::Builder::dense)).
//!
//! One thread of the process looks at them now and then. Looking takes no lock and nobody's time: an interpreter counts the visits
//! that have ended ([`Visitors::ended`]). The pauses between two times get longer up to some minutes, so both the processor's time and
//! the bytes that are written are bounded, however often an interpreter's memory changes.

use crate::interpreter::{Inner, Visitors};
use crate::settle::settle_if_worth_it;
use crate::thread::Thread;
use crate::{Error, Result, Settled, Unsettled};
use hydrozoa_loader::{LeafLock, Process};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// How often the thread looks.
const LOOK: Duration = Duration::from_millis(250);

/// How long nobody has called an interpreter that is settled.
const IDLE: Duration = Duration::from_secs(1);

/// How long an interpreter that is due is called again and again, until any moment between two calls will do.
const PATIENCE: Duration = Duration::from_secs(20);

/// The pause after an interpreter was settled for the first time. Each further one is twice as long, up to the longest.
const PAUSE: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_secs(320);

/// Interpreters that the thread does not know yet, and the process that it runs in.
struct Arrivals {
    all: Vec<Watched>,
    process: Option<Process>,
}

static ARRIVALS: LeafLock<Arrivals> = LeafLock::new(Arrivals { all: Vec::new(), process: None });

/// Has an interpreter settled while nobody uses it, if its pool wishes so.
pub(crate) fn watch(inner: &Arc<Inner>) {
    let settling = inner.settling();
    let (true, Ok(directory)) = (settling.is_dense(), settling.directory()) else { return };
    let watched = Watched {
        inner: Arc::downgrade(inner),
        visitors: inner.visitors().clone(),
        directory: directory.to_owned(),
        schedule: Schedule::new(Instant::now()),
    };
    // Without the thread of the process that has forked this one, and its interpreters.
    let own = Process::current();
    let (begins, left) = ARRIVALS.with(|arrivals| {
        let begins = arrivals.process.replace(own) != Some(own);
        let left = if begins { std::mem::take(&mut arrivals.all) } else { Vec::new() };
        arrivals.all.push(watched);
        (begins, left)
    });
    drop(left);
    if !begins {
        return;
    }
    match Thread::helper("dense", run) {
        Ok(thread) => thread.detach(),
        Err(error) => {
            ARRIVALS.with(|arrivals| arrivals.process = None);
            tracing::warn!(%error, "no thread that settles interpreters: they stay in memory");
        }
    }
}

fn run() {
    let mut all = Vec::new();
    loop {
        let is_over = ARRIVALS.with(|arrivals| {
            all.append(&mut arrivals.all);
            if all.is_empty() {
                arrivals.process = None;
            }
            all.is_empty()
        });
        if is_over {
            return;
        }
        all.retain_mut(Watched::look);
        thread::sleep(LOOK);
    }
}

/// An interpreter that the thread looks at.
struct Watched {
    inner: Weak<Inner>,
    visitors: Arc<Visitors>,
    directory: PathBuf,
    schedule: Schedule,
}

impl Watched {
    /// Settles it if it is time to. False if it has ended, or can never be settled.
    fn look(&mut self) -> bool {
        if !self.schedule.is_time(self.visitors.ended(), Instant::now()) {
            return self.inner.strong_count() > 0;
        }
        let Some(inner) = self.inner.upgrade() else { return false };
        let outcome = settle_if_worth_it(&inner, &self.directory);
        self.report(inner.name(), &outcome);
        let (now, ended) = (Instant::now(), self.visitors.ended());
        match outcome {
            Ok(Some(_)) => self.schedule.settled(ended, now),
            Ok(None) => self.schedule.left(ended, now),
            Err(Error::Settle { reason, .. }) => match reason {
                Unsettled::Visited { .. } => self.schedule.disturbed(now),
                // The disk may have room later.
                Unsettled::Io { .. } => self.schedule.refused(now, LONGEST),
                Unsettled::InMemory { .. } | Unsettled::Forked | Unsettled::NoWindow => {
                    return false;
                }
                _ => self.schedule.refused(now, PAUSE),
            },
            Err(Error::Crashed { .. }) => return false,
            Err(_) => self.schedule.refused(now, PAUSE),
        }
        true
    }

    /// A directory that does not serve is told of once.
    fn report(&self, interpreter: &str, outcome: &Result<Option<Settled>>) {
        static TOLD: LeafLock<Vec<PathBuf>> = LeafLock::new(Vec::new());
        match outcome {
            Ok(Some(settled)) => tracing::debug!(interpreter, ?settled, "settled"),
            Ok(None) => {}
            Err(Error::Settle {
                reason: reason @ (Unsettled::Io { .. } | Unsettled::InMemory { .. }),
                ..
            }) => {
                let own = self.directory.clone();
                let is_new = TOLD.with(|told| {
                    let is_new = !told.contains(&own);
                    if is_new {
                        told.push(own);
                    }
                    is_new
                });
                if is_new {
                    tracing::warn!(%reason, "interpreters are not settled, and stay in memory");
                }
            }
            Err(error) => tracing::debug!(interpreter, %error, "not settled"),
        }
    }
}

/// When an interpreter is settled.
#[derive(Debug)]
struct Schedule {
    /// The number of visits that had ended at the last look, and since when that has been so.
    ended: usize,
    since: Instant,
    /// That number when the interpreter was looked at closely.
    settled: Option<usize>,
    /// When it may be settled, and how long not after that.
    due: Instant,
    pause: Duration,
    /// When it may be tried again after an attempt that a call has disturbed.
    again: Instant,
}

impl Schedule {
    fn new(now: Instant) -> Self {
        Self { ended: 0, since: now, settled: None, due: now, pause: PAUSE, again: now }
    }

    /// Whether it is time, for an interpreter in which so many visits have ended, or somebody is inside.
    fn is_time(&mut self, ended: Option<usize>, now: Instant) -> bool {
        let Some(ended) = ended else {
            self.since = now;
            return false;
        };
        if ended != self.ended {
            (self.ended, self.since) = (ended, now);
        }
        let is_idle =
            now - self.since >= IDLE || now.saturating_duration_since(self.due) >= PATIENCE;
        is_idle && now >= self.due && now >= self.again && self.settled != Some(ended)
    }

    /// Notes that it was settled.
    fn settled(&mut self, ended: Option<usize>, now: Instant) {
        self.settled = ended;
        self.due = now + self.pause;
        self.pause = LONGEST.min(self.pause * 2);
    }

    /// Notes that too little had become anonymous.
    fn left(&mut self, ended: Option<usize>, now: Instant) {
        self.settled = ended;
        self.due = now + PAUSE;
    }

    /// Notes that somebody was inside.
    fn disturbed(&mut self, now: Instant) {
        self.again = now + PAUSE;
    }

    /// Notes that it was refused, for this long at least.
    fn refused(&mut self, now: Instant, least: Duration) {
        self.due = now + self.pause.max(least);
        self.pause = LONGEST.min(self.pause * 2);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at an interpreter four times a second, which `visits` says the number of visits of at a time. Returns when it was settled.
    fn times(seconds: u64, visits: impl Fn(Duration) -> Option<usize>) -> Vec<u64> {
        let begin = Instant::now();
        let mut schedule = Schedule::new(begin);
        let mut times = Vec::new();
        let mut time = Duration::ZERO;
        while time < Duration::from_secs(seconds) {
            let ended = visits(time);
            if schedule.is_time(ended, begin + time) {
                schedule.settled(ended, begin + time);
                times.push(time.as_secs());
            }
            time += LOOK;
        }
        times
    }

    #[test]
    fn it_is_settled_once_it_is_idle_and_not_again_until_it_was_called() {
        assert_eq!(times(1000, |_| Some(3)), [1]);
        // Called once, when ten seconds have passed.
        assert_eq!(times(1000, |time| Some((time.as_secs() / 10).min(1) as usize)), [1, 11]);
    }

    #[test]
    fn one_that_is_called_all_the_time_is_settled_more_and_more_rarely() {
        let always = times(3600, |time| Some(time.as_millis() as usize));
        assert_eq!(always[..4], [20, 45, 75, 115]);
        assert!(
            always.windows(2).last().unwrap()[1] - always[always.len() - 2] == 340,
            "{always:?}"
        );
        // One that is called every three seconds rests long enough.
        let sometimes = times(3600, |time| Some((time.as_secs() / 3) as usize));
        assert_eq!(sometimes[..4], [1, 7, 17, 37]);
    }

    #[test]
    fn one_that_never_returns_from_a_call_is_left_alone() {
        assert_eq!(times(1000, |time| (time.as_secs() % 2 == 0).then_some(1)).len(), 1);
        assert_eq!(times(1000, |_| None), [0; 0]);
    }
}
