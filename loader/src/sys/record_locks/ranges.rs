//! The bytes of a file that one owner has locked.

use std::ffi::c_int;

/// Locked bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub first: i64,
    /// [`i64::MAX`] where it has no end.
    pub last: i64,
    pub is_exclusive: bool,
}

impl Range {
    /// The bytes that a call means, `base` being where it counts from.
    ///
    /// # Errors
    /// The number of the error, as the kernel has it (fs/locks.c, flock64_to_posix_lock).
    pub(super) fn of(lock: &libc::flock, base: i64) -> Result<Range, c_int> {
        let start = base.checked_add(lock.l_start).ok_or(libc::EOVERFLOW)?;
        if start < 0 {
            return Err(libc::EINVAL);
        }
        let (first, last) = match lock.l_len {
            0 => (start, i64::MAX),
            1.. => (start, start.checked_add(lock.l_len - 1).ok_or(libc::EOVERFLOW)?),
            _ => (start.checked_add(lock.l_len).ok_or(libc::EINVAL)?, start - 1),
        };
        if first < 0 {
            return Err(libc::EINVAL);
        }
        Ok(Range { first, last, is_exclusive: c_int::from(lock.l_type) == libc::F_WRLCK })
    }

    pub(super) fn meets(&self, other: &Range) -> bool {
        self.first <= other.last && other.first <= self.last
    }

    /// Whether two owners cannot hold both.
    pub(super) fn excludes(&self, other: &Range) -> bool {
        self.meets(other) && (self.is_exclusive || other.is_exclusive)
    }

    /// As the kernel takes it, for a lock of this kind.
    pub(super) fn to_lock(self, kind: c_int) -> libc::flock {
        libc::flock {
            l_type: kind as libc::c_short,
            l_whence: libc::SEEK_SET as libc::c_short,
            l_start: self.first,
            l_len: if self.last == i64::MAX { 0 } else { self.last - self.first + 1 },
            l_pid: 0,
        }
    }
}

/// Takes bytes out.
pub(super) fn remove(ranges: &mut Vec<Range>, bytes: &Range) {
    let mut rest = Vec::with_capacity(ranges.len() + 1);
    for range in ranges.drain(..) {
        if !range.meets(bytes) {
            rest.push(range);
            continue;
        }
        if range.first < bytes.first {
            rest.push(Range { last: bytes.first - 1, ..range });
        }
        if range.last > bytes.last {
            rest.push(Range { first: bytes.last + 1, ..range });
        }
    }
    *ranges = rest;
}

/// Adds bytes. Those locked already change their kind.
pub(super) fn add(ranges: &mut Vec<Range>, bytes: Range) {
    remove(ranges, &bytes);
    ranges.push(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: i64, last: i64, is_exclusive: bool) -> Range {
        Range { first, last, is_exclusive }
    }

    #[test]
    fn a_part_of_what_is_locked_may_be_unlocked_or_change_its_kind() {
        let mut ranges = Vec::new();
        add(&mut ranges, range(10, 19, false));
        remove(&mut ranges, &range(12, 13, false));
        add(&mut ranges, range(15, i64::MAX, true));
        let expected = [range(10, 11, false), range(14, 14, false), range(15, i64::MAX, true)];
        assert_eq!(ranges, expected);
        remove(&mut ranges, &range(0, i64::MAX, false));
        assert_eq!(ranges, []);
    }

    #[test]
    fn the_bytes_are_those_that_the_kernel_takes_a_call_for() {
        let bytes = |l_start, l_len, base| {
            let kind = libc::F_WRLCK as libc::c_short;
            let lock = libc::flock { l_type: kind, l_whence: 0, l_start, l_len, l_pid: 0 };
            Range::of(&lock, base).map(|range| (range.first, range.last))
        };
        assert_eq!(bytes(5, 0, 100), Ok((105, i64::MAX)));
        assert_eq!(bytes(-5, 10, 100), Ok((95, 104)));
        assert_eq!(bytes(0, -10, 100), Ok((90, 99)));
        assert_eq!(bytes(0, -101, 100), Err(libc::EINVAL));
        assert_eq!(bytes(-1, 1, 0), Err(libc::EINVAL));
        assert_eq!(bytes(i64::MAX, 1, 1), Err(libc::EOVERFLOW));
        assert_eq!(bytes(i64::MAX, 2, 0), Err(libc::EOVERFLOW));
    }
}
