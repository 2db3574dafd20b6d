//! What an interpreter costs in memory.
//!
//! Private memory is what a process must have for itself: pages that it has written, which the
//! kernel counts as anonymous once they are no longer the file's. `Private_Dirty` would not do: it
//! also counts clean pages of a file that was written a moment ago.

use crate::interpreter::Interpreter;
use crate::{Error, Result};
use std::fs;
use std::ops::{RangeInclusive, Sub};
use std::path::PathBuf;

/// Memory of this process in bytes, from `/proc/self/smaps_rollup` (proc(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// `Anonymous`: pages that belong to no file: heaps, stacks, written pages of mapped files.
    pub anonymous: i64,
    /// `Private_Dirty`: written pages that no other process maps.
    pub private_dirty: i64,
    /// `Pss`: all resident pages, each divided by the number of mappings that share it.
    pub proportional: i64,
    /// `Rss`: all resident pages.
    pub resident: i64,
}

impl Usage {
    /// What this process uses now. The difference of two, around the start of an interpreter or a
    /// load into it, is what that cost, as long as nothing else allocates meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] where `/proc` is not mounted.
    pub fn of_process() -> Result<Self> {
        let path = PathBuf::from("/proc/self/smaps_rollup");
        let text = fs::read_to_string(&path).map_err(|source| Error::Io { path, source })?;
        Ok(fields(text.lines()))
    }
}

impl Sub for Usage {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            anonymous: self.anonymous - earlier.anonymous,
            private_dirty: self.private_dirty - earlier.private_dirty,
            proportional: self.proportional - earlier.proportional,
            resident: self.resident - earlier.resident,
        }
    }
}

impl Interpreter {
    /// What the replicas in this interpreter's domain use: the mappings that lie within them, from
    /// `/proc/self/smaps`. Heap and TLS are not in it; [`Usage::of_process`] tells those by
    /// difference.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] where `/proc` is not mounted.
    pub fn replica_memory(&self) -> Result<Usage> {
        let path = PathBuf::from("/proc/self/smaps");
        let text = fs::read_to_string(&path).map_err(|source| Error::Io { path, source })?;
        let replicas: Vec<RangeInclusive<usize>> = self
            .domain()
            .replicas()
            .iter()
            .map(|replica| replica.base..=replica.base + replica.size - 1)
            .collect();
        let mut within = false;
        Ok(fields(text.lines().filter(|line| {
            if let Some(start) = mapping_start(line) {
                within = replicas.iter().any(|replica| replica.contains(&start));
            }
            within
        })))
    }
}

/// Start address of the mapping whose first line this is: `7f12…-7f34… r-xp …`.
fn mapping_start(line: &str) -> Option<usize> {
    let (start, _) = line.split_once('-')?;
    usize::from_str_radix(start, 16).ok()
}

/// Sums the fields of interest: `Name:   123 kB`.
fn fields<'line>(lines: impl Iterator<Item = &'line str>) -> Usage {
    let mut usage = Usage::default();
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let sum = match name {
            "Anonymous" => &mut usage.anonymous,
            "Private_Dirty" => &mut usage.private_dirty,
            "Pss" => &mut usage.proportional,
            "Rss" => &mut usage.resident,
            _ => continue,
        };
        let kilobytes: i64 = value.trim().trim_end_matches(" kB").parse().unwrap_or_default();
        *sum += 1024 * kilobytes;
    }
    usage
}

#[cfg(test)]
mod tests {
    use super::{Usage, fields, mapping_start};

    #[test]
    fn fields_are_summed_over_mappings() {
        let text = "7f00-7f10 r-xp 0 00:00 0 /lib/a\nRss: 8 kB\nPss: 4 kB\nAnonymous: 4 kB\n\
                    7f10-7f20 rw-p 0 00:00 0\nRss: 4 kB\nPrivate_Dirty: 4 kB\nAnonymous: 4 kB";
        let expected =
            Usage { anonymous: 8192, private_dirty: 4096, proportional: 4096, resident: 12288 };
        assert_eq!(fields(text.lines()), expected);
        assert_eq!(mapping_start("7f10-7f20 rw-p"), Some(0x7f10));
        assert_eq!(mapping_start("Private_Dirty:      4 kB"), None);
    }
}
