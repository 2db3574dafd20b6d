//! Sets of address ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// Addresses, as ranges that do not overlap.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges(BTreeMap<usize, usize>);

impl Ranges {
    pub(crate) const fn new() -> Ranges {
        Ranges(BTreeMap::new())
    }

    /// Adds a range.
    pub(crate) fn add(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        drop(self.remove(range.clone()));
        self.0.insert(range.start, range.end);
    }

    /// Removes the addresses of a range, and returns those that were there.
    pub(crate) fn remove(&mut self, range: Range<usize>) -> Vec<Range<usize>> {
        let mut removed = Vec::new();
        while let Some((&start, &end)) = self.0.range(..range.end).next_back()
            && end > range.start
            && !range.is_empty()
        {
            self.0.remove(&start);
            if end > range.end {
                self.0.insert(range.end, end);
            }
            if start < range.start {
                self.0.insert(start, range.start);
            }
            removed.push(start.max(range.start)..end.min(range.end));
        }
        removed
    }

    /// The ranges, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<usize>> {
        self.0.iter().map(|(&start, &end)| start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_removed_is_cut_out() {
        let mut ranges = Ranges::new();
        ranges.add(10..20);
        ranges.add(30..40);
        assert_eq!(ranges.remove(15..35), [30..35, 15..20]);
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [10..15, 35..40]);
        assert_eq!(ranges.remove(11..12).first(), Some(&(11..12)));
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [10..11, 12..15, 35..40]);
        assert_eq!(ranges.remove(15..35), []);
        assert_eq!(ranges.remove(0..0), []);
    }

    #[test]
    fn a_range_replaces_what_was_there() {
        let mut ranges = Ranges::new();
        ranges.add(10..40);
        ranges.add(20..30);
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [10..20, 20..30, 30..40]);
        ranges.add(5..50);
        ranges.add(60..60);
        assert_eq!((ranges.iter().next(), ranges.iter().count()), (Some(5..50), 1));
    }
}
