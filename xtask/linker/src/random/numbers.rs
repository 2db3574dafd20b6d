//! Random numbers that depend only on the seed, and on the release of fastrand in Cargo.lock.

#[derive(Clone, Debug)]
pub(super) struct Numbers(fastrand::Rng);

impl Numbers {
    pub(super) fn new(seed: u64) -> Numbers {
        Numbers(fastrand::Rng::with_seed(seed))
    }

    /// A number below `end`, which is not 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        self.0.usize(..end)
    }

    /// A number from `from` to `to`, both included.
    pub(super) fn between(&mut self, from: usize, to: usize) -> usize {
        from + self.below(to - from + 1)
    }

    /// True `percent` times of a hundred.
    pub(super) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of `all`, which is not empty.
    pub(super) fn of<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }
}
