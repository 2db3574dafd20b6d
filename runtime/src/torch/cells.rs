//! One value per interpreter, found without a lock.

use std::sync::OnceLock;

use super::adapter::Member;
use super::locks::NoFork;

/// A growing table with a place for each interpreter.
///
/// Places are in segments that double in size and never move: segment k holds the members
/// 2^k - 1 .. 2^(k+1) - 1. So one table serves two or thousands of interpreters, and a reader follows
/// two pointers.
#[derive(Debug)]
pub(super) struct Cells<T> {
    segments: [OnceLock<Box<[T]>>; SEGMENTS],
}

/// 2^16 - 1 interpreters: more than a process can have mappings for.
const SEGMENTS: usize = 16;

impl<T: Default> Cells<T> {
    pub(super) const fn new() -> Cells<T> {
        Cells { segments: [const { OnceLock::new() }; SEGMENTS] }
    }

    /// The interpreter's place, made on first use.
    ///
    /// # Panics
    /// If the process has more interpreters than [`SEGMENTS`] allows. Its limit on mappings
    /// prevents that.
    pub(super) fn of(&self, member: &Member) -> &T {
        let (segment, place) = position(member.index());
        let segment_of = &self.segments[segment];
        let places = segment_of.get().unwrap_or_else(|| {
            let _no_fork = NoFork::begin();
            segment_of.get_or_init(|| (0..1 << segment).map(|_| T::default()).collect())
        });
        &places[place]
    }

    /// The interpreter's place, if anything of its segment was ever used.
    pub(super) fn get(&self, member: &Member) -> Option<&T> {
        let (segment, place) = position(member.index());
        self.segments[segment].get().map(|places| &places[place])
    }

    /// All places in use.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.segments.iter().filter_map(OnceLock::get).flat_map(|places| places.iter())
    }
}

fn position(index: usize) -> (usize, usize) {
    let segment = (index + 1).ilog2() as usize;
    (segment, index + 1 - (1 << segment))
}

#[cfg(test)]
mod tests {
    use super::position;

    #[test]
    fn members_follow_each_other_through_the_segments() {
        let positions: Vec<_> = (0..8).map(position).collect();
        assert_eq!(positions, [(0, 0), (1, 0), (1, 1), (2, 0), (2, 1), (2, 2), (2, 3), (3, 0)]);
    }
}
