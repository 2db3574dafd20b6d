//! The restarts of an instance: their pauses, and their end.

use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// The pause before the first repetition of a start that has failed. It doubles each time.
const PAUSE: Duration = Duration::from_millis(200);

/// The longest such pause.
const LONGEST: Duration = Duration::from_secs(30);

/// An instance that has served for so long before a crash has not crashed again, but for the first time: systemd's
/// DefaultStartLimitIntervalSec (systemd-system.conf(5)).
pub(crate) const SOON: Duration = Duration::from_secs(10);

/// The starts of an instance.
#[derive(Default)]
pub(crate) struct Restarts(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    /// Starts that have failed since the last that succeeded.
    failures: u32,
    /// Crashes in a row.
    crashes: u32,
    /// Since when it serves.
    serves: Option<Instant>,
}

/// The next step for an instance that does not serve.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// It is started after a pause.
    Start(Duration),
    /// It has crashed so often in a row, and is not started again.
    GivenUp(u32),
}

impl Restarts {
    /// A start has failed, or begins, which counts as failed until the instance serves.
    pub(crate) fn failed(&self) {
        self.0.lock().failures += 1;
    }

    /// It serves.
    pub(crate) fn serves(&self) {
        let mut counts = self.0.lock();
        (counts.failures, counts.serves) = (0, Some(Instant::now()));
    }

    /// It has crashed.
    pub(crate) fn crashed(&self) {
        self.crashed_at(Instant::now());
    }

    fn crashed_at(&self, now: Instant) {
        let mut counts = self.0.lock();
        let served = counts.serves.take().map(|since| now.saturating_duration_since(since));
        let is_again = served.is_none_or(|served| served < SOON);
        counts.crashes = if is_again { counts.crashes + 1 } else { 1 };
    }

    /// The next step, if so many crashes in a row are too many.
    pub(crate) fn next(&self, limit: Option<u32>) -> Next {
        let mut counts = self.0.lock();
        if counts.serves.is_some_and(|since| since.elapsed() >= SOON) {
            // It did not crash this time.
            counts.crashes = 0;
        }
        if limit.is_some_and(|limit| counts.crashes >= limit.max(1)) {
            return Next::GivenUp(counts.crashes);
        }
        // The first restart after a crash comes at once.
        let repeated = counts.failures.max(counts.crashes.saturating_sub(1));
        Next::Start(match repeated.checked_sub(1) {
            Some(doublings) => LONGEST.min(PAUSE * (1 << doublings.min(10))),
            None => Duration::ZERO,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, Next, Restarts, SOON};
    use std::time::{Duration, Instant};

    #[test]
    fn pauses_double_with_each_failure_and_end_when_it_serves() {
        let restarts = Restarts::default();
        assert_eq!(restarts.next(Some(1)), Next::Start(Duration::ZERO));
        for pause in [200, 400, 800] {
            restarts.failed();
            assert_eq!(restarts.next(Some(1)), Next::Start(Duration::from_millis(pause)));
        }
        (0..100).for_each(|_| restarts.failed());
        assert_eq!(restarts.next(Some(1)), Next::Start(LONGEST));
        restarts.serves();
        assert_eq!(restarts.next(Some(1)), Next::Start(Duration::ZERO));
    }

    #[test]
    fn an_instance_that_crashes_soon_again_pauses_and_is_given_up() {
        let restarts = Restarts::default();
        for pause in [0, 200, 400, 800] {
            restarts.serves();
            restarts.crashed();
            assert_eq!(restarts.next(Some(5)), Next::Start(Duration::from_millis(pause)));
        }
        // Also one that does not get as far as to serve.
        restarts.crashed();
        assert_eq!(restarts.next(Some(5)), Next::GivenUp(5));
        assert_eq!(restarts.next(None), Next::Start(Duration::from_millis(1600)));
    }

    #[test]
    fn an_instance_that_has_served_for_long_has_crashed_for_the_first_time() {
        let restarts = Restarts::default();
        for _ in 0..20 {
            restarts.serves();
            restarts.crashed_at(Instant::now() + SOON);
            assert_eq!(restarts.next(Some(2)), Next::Start(Duration::ZERO));
        }
    }
}
