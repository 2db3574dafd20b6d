//! The speed at which a body arrives.

use std::time::Duration;

/// Counts the bytes of a body against the time spent waiting for it. Time in which the server does not read is not counted.
#[derive(Debug)]
pub struct Pace {
    rate: usize,
    patience: Duration,
    waited: Duration,
    bytes: usize,
}

impl Pace {
    /// In each `patience` of waiting, bytes must arrive at `rate` a second or faster.
    pub fn new(rate: usize, patience: Duration) -> Self {
        Self { rate, patience, waited: Duration::ZERO, bytes: 0 }
    }

    /// How long to wait at most before the next call of [`Pace::waited`].
    pub fn left(&self) -> Duration {
        self.patience.saturating_sub(self.waited)
    }

    /// Notes a wait and the bytes that came in it. False if the body is too slow.
    pub fn waited(&mut self, time: Duration, bytes: usize) -> bool {
        self.waited += time;
        self.bytes = self.bytes.saturating_add(bytes);
        if self.waited < self.patience {
            return true;
        }
        let least = self.rate as f64 * self.waited.as_secs_f64();
        let is_fast = self.bytes as f64 >= least;
        (self.waited, self.bytes) = (Duration::ZERO, 0);
        is_fast
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;
    use std::time::Duration;

    #[test]
    fn a_body_must_come_at_its_rate_all_the_time() {
        let second = Duration::from_secs(1);
        let mut pace = Pace::new(100, 2 * second);
        assert!(pace.waited(second, 10_000));
        assert_eq!(pace.left(), second);
        assert!(pace.waited(second, 0));
        // Earlier speed does not make up for being slow now.
        assert!(pace.waited(second, 100));
        assert!(!pace.waited(second, 99));
        let mut any = Pace::new(0, second);
        assert!(any.waited(5 * second, 0));
    }
}
