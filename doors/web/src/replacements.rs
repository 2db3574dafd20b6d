//! Which workers are to be replaced, and when the next attempt is after one that has failed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// The first wait after a worker could not be loaded; each further one is twice as long, up to [`LONGEST`].
const RETRY: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);

/// The workers that are to be replaced, by their places.
#[derive(Default)]
pub(crate) struct Replacements {
    wanted: VecDeque<usize>,
    /// Those of them that are not tried again: the next change of the application asks for them anew.
    once: BTreeSet<usize>,
    /// When a failed attempt is made again, and how long that waits.
    failed: BTreeMap<usize, (Instant, Duration)>,
}

impl Replacements {
    /// Wants these replaced. With `once`, a failure is the end of it.
    pub(crate) fn want(&mut self, indexes: impl IntoIterator<Item = usize>, once: bool) {
        for index in indexes {
            if self.wanted.contains(&index) {
                if !once {
                    self.once.remove(&index);
                }
                continue;
            }
            self.wanted.push_back(index);
            // One that had to go before goes whatever the application looks like.
            if once && !self.failed.contains_key(&index) {
                self.once.insert(index);
            }
        }
    }

    /// Whether one waits for its first attempt.
    pub(crate) fn is_urgent(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// How long none is to be tried.
    pub(crate) fn pause(&self, now: Instant) -> Duration {
        let next = self.failed.values().map(|(at, _)| at.saturating_duration_since(now)).min();
        next.unwrap_or(LONGEST)
    }

    /// The one to try now.
    pub(crate) fn next(&mut self, now: Instant) -> Option<usize> {
        let due = || self.failed.iter().find(|(_, (at, _))| *at <= now).map(|(index, _)| *index);
        self.wanted.pop_front().or_else(due)
    }

    pub(crate) fn succeeded(&mut self, index: usize) {
        self.once.remove(&index);
        self.failed.remove(&index);
    }

    /// Returns how long the next attempt waits. `None` if there is none: nor is there one for others of the same change.
    pub(crate) fn failed(&mut self, index: usize, now: Instant) -> Option<Duration> {
        if self.once.contains(&index) {
            let once = std::mem::take(&mut self.once);
            self.wanted.retain(|other| !once.contains(other));
            return None;
        }
        let before = self.failed.get(&index).map(|(_, pause)| (*pause * 2).min(LONGEST));
        let pause = before.unwrap_or(RETRY);
        self.failed.insert(index, (now + pause, pause));
        Some(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, RETRY, Replacements};
    use std::time::Instant;

    #[test]
    fn a_failed_replacement_is_tried_again_later_and_later() {
        let (mut all, mut now) = (Replacements::default(), Instant::now());
        all.want([0, 1], false);
        assert_eq!((all.next(now), all.next(now), all.next(now)), (Some(0), Some(1), None));
        assert_eq!(all.failed(1, now), Some(RETRY));
        assert_eq!((all.is_urgent(), all.next(now)), (false, None));
        now += RETRY;
        assert_eq!(all.next(now), Some(1));
        assert_eq!(all.failed(1, now), Some(RETRY * 2));
        for _ in 0..10 {
            all.failed(1, now);
        }
        assert_eq!(all.failed(1, now), Some(LONGEST));
        all.succeeded(1);
        assert_eq!(all.next(now + LONGEST), None);
    }

    #[test]
    fn a_change_that_fails_is_tried_at_the_next_one_and_keeps_no_other_from_being_replaced() {
        let (mut all, now) = (Replacements::default(), Instant::now());
        all.want([2], false);
        all.want([0, 1, 2], true);
        assert_eq!((all.next(now), all.failed(2, now)), (Some(2), Some(RETRY)));
        assert_eq!((all.next(now), all.failed(0, now)), (Some(0), None));
        assert_eq!(all.next(now), None);
        assert_eq!(all.next(now + RETRY), Some(2));
        all.want([0, 1], true);
        assert_eq!((all.next(now), all.next(now)), (Some(0), Some(1)));
    }
}
