use hydrozoa::{Result, Session};
use std::sync::atomic::{AtomicI64, Ordering};

struct Counter(AtomicI64);

/// Counts.
#[hydrozoa::class]
impl Counter {
    #[new]
    #[signature = "(start=0)"]
    fn new(start: i64) -> Self {
        Counter(AtomicI64::new(start))
    }

    /// Adds n, and returns the sum.
    fn add(&self, n: i64) -> i64 {
        self.0.fetch_add(n, Ordering::Relaxed) + n
    }
}

pub fn count(session: &Session, start: i64, more: i64) -> Result<i64> {
    let counter = session.class::<Counter>()?.call(start)?;
    counter.call_method("add", more)?.extract()
}
