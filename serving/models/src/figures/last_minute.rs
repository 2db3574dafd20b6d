//! Recent durations of an operation.

use hdrhistogram::Histogram;
use parking_lot::Mutex;
use std::time::{Duration, Instant};

/// The length of a window's parts.
pub(crate) const PART: Duration = Duration::from_secs(12);

/// The parts of a window: the oldest one is forgotten as a whole. Triton's summaries have as many.
pub(crate) const PARTS: usize = 5;

/// Longer durations count as this one.
const LONGEST: Duration = Duration::from_secs(3600);

/// Digits of a duration that are kept.
const DIGITS: u8 = 2;

/// Durations of the last minute.
pub(crate) struct Recent(Mutex<Window>);

struct Window {
    began: Instant,
    /// The number of the part that is written. Parts are numbered from `began` on.
    current: u64,
    parts: [Histogram<u32>; PARTS],
}

/// The durations of an operation in the last minute.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Latency {
    /// How often it has happened.
    pub count: u64,
    /// The time in which it was counted: at most a minute.
    pub span: Duration,
    /// Half of them took at most so long.
    pub p50: Duration,
    /// Nine of ten.
    pub p90: Duration,
    /// 95 of 100.
    pub p95: Duration,
    /// 99 of 100.
    pub p99: Duration,
    /// 999 of 1,000.
    pub p999: Duration,
}

impl Latency {
    /// How often it happened per second.
    pub fn rate(&self) -> f64 {
        // A rate over less than a second would mean nothing.
        self.count as f64 / self.span.as_secs_f64().max(1.0)
    }
}

impl Default for Recent {
    fn default() -> Self {
        Self::beginning(Instant::now())
    }
}

impl Recent {
    fn beginning(began: Instant) -> Self {
        let parts =
            std::array::from_fn(|_| Histogram::new(DIGITS).expect("so many digits are possible"));
        Self(Mutex::new(Window { began, current: 0, parts }))
    }

    /// Notes that it has taken so long, so many times.
    pub(crate) fn record(&self, took: Duration, times: usize) {
        self.record_at(Instant::now(), took, times);
    }

    fn record_at(&self, now: Instant, took: Duration, times: usize) {
        let mut window = self.0.lock();
        window.advance(now);
        let place = window.current as usize % PARTS;
        let took = took.min(LONGEST).as_micros() as u64;
        // A histogram grows as far as the longest duration needs.
        let recorded = window.parts[place].record_n(took, times as u32);
        debug_assert!(recorded.is_ok(), "{recorded:?}");
    }

    pub(crate) fn read(&self) -> Latency {
        self.read_at(Instant::now())
    }

    fn read_at(&self, now: Instant) -> Latency {
        let mut window = self.0.lock();
        window.advance(now);
        let (first, others) = window.parts.split_first().expect("there are parts");
        let mut all = first.clone();
        for part in others {
            let added = all.add(part);
            debug_assert!(added.is_ok(), "{added:?}");
        }
        let elapsed = now.saturating_duration_since(window.began);
        let kept = PART * (window.current as u32).min(PARTS as u32 - 1);
        drop(window);
        let of = |quantile: f64| Duration::from_micros(all.value_at_quantile(quantile));
        Latency {
            count: all.len(),
            span: elapsed
                .min(kept + Duration::from_nanos((elapsed.as_nanos() % PART.as_nanos()) as u64)),
            p50: of(0.5),
            p90: of(0.9),
            p95: of(0.95),
            p99: of(0.99),
            p999: of(0.999),
        }
    }
}

impl Window {
    /// Empties the parts that are over.
    fn advance(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.began);
        let number = (elapsed.as_nanos() / PART.as_nanos()) as u64;
        let passed = number.saturating_sub(self.current).min(PARTS as u64);
        for later in 0..passed {
            self.parts[(number - later) as usize % PARTS].reset();
        }
        self.current = self.current.max(number);
    }
}

#[cfg(test)]
mod tests {
    use super::{PART, PARTS, Recent};
    use std::time::{Duration, Instant};

    #[test]
    fn a_window_has_the_last_minute_and_its_quantiles() {
        let began = Instant::now();
        let recent = Recent::beginning(began);
        for milliseconds in 1..=100 {
            recent.record_at(
                began + Duration::from_secs(3),
                Duration::from_millis(milliseconds),
                1,
            );
        }
        let read = recent.read_at(began + Duration::from_secs(4));
        assert_eq!((read.count, read.span), (100, Duration::from_secs(4)));
        assert_eq!(read.rate(), 25.0);
        for (found, expected) in [(read.p50, 50.0), (read.p90, 90.0), (read.p99, 99.0)] {
            let ratio = found.as_secs_f64() / (expected / 1000.0);
            assert!((0.98..1.02).contains(&ratio), "{found:?}");
        }
        recent.record_at(began + PART * 2, Duration::from_secs(9999), 7);
        let read = recent.read_at(began + PART * 4 + Duration::from_secs(2));
        assert_eq!((read.count, read.span), (107, PART * 4 + Duration::from_secs(2)));
        assert!(read.p999 >= Duration::from_secs(3590), "{read:?}");
        // The first part is over.
        let read = recent.read_at(began + PART * PARTS as u32);
        assert_eq!((read.count, read.span), (7, PART * 4));
        let read = recent.read_at(began + PART * 100);
        assert_eq!((read.count, read.p99), (0, Duration::ZERO));
    }
}
