//! What an interpreter costs in memory.
//!
//! Private memory is what a process must have for itself: pages that it has written, which the
//! kernel counts as anonymous once they are no longer the file's. `Private_Dirty` would not do: it
//! also counts clean pages of a file that was written a moment ago.

use crate::interpreter::Interpreter;
use crate::{Error, Result};
use std::fs::{self, File};
use std::ops::Sub;
use std::os::unix::fs::FileExt;
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

/// Returns to the kernel the pages on which malloc has nothing but free pieces, in all arenas.
///
/// Loading a model makes and frees some ten thousand objects, and its first call the largest intermediate results. glibc
/// returns of that only what lies at the end of an arena (malloc_trim(3)), and an object of the model that lies behind keeps it
/// all. So it is done once for each load, when the session ends in which it happened, never for each call: pages given back
/// are faulted in again by who needs them.
pub(crate) fn give_back() {
    let start = std::time::Instant::now();
    // SAFETY: the function takes any padding, and locks each arena while it looks at it.
    let released = unsafe { libc::malloc_trim(0) };
    tracing::debug!(released = released != 0, elapsed = ?start.elapsed(), "malloc gave back");
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
    /// Private memory of the replicas in this interpreter's domain, in bytes: pages of their
    /// mappings that are not the file's, by `/proc/self/pagemap`. (`smaps` cannot tell: the kernel
    /// joins a replica's bss with whatever lies beside it.) Heap and TLS are not in it;
    /// [`Usage::of_process`] tells those by difference.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] where `/proc` is not mounted.
    pub fn replica_memory(&self) -> Result<u64> {
        let path = PathBuf::from("/proc/self/pagemap");
        let failed = |source| Error::Io { path: path.clone(), source };
        let pagemap = File::open(&path).map_err(failed)?;
        let mut private = 0;
        for replica in self.domain().replicas() {
            let mut entries = vec![0; replica.size.div_ceil(PAGE) * ENTRY];
            let offset = (replica.base / PAGE * ENTRY) as u64;
            pagemap.read_exact_at(&mut entries, offset).map_err(failed)?;
            let (entries, _) = entries.as_chunks::<ENTRY>();
            let is_private = |entry: &&[u8; ENTRY]| is_private(u64::from_ne_bytes(**entry));
            private += entries.iter().filter(is_private).count() * PAGE;
        }
        Ok(private as u64)
    }
}

/// Bytes of a page on x86-64, and of its entry in pagemap.
const PAGE: usize = 4096;
const ENTRY: usize = 8;

/// Whether a page exists (in memory, bit 63, or swapped out, bit 62) and is neither a file's nor
/// shared (bit 61): Documentation/admin-guide/mm/pagemap.rst of the kernel.
fn is_private(entry: u64) -> bool {
    entry >> 62 != 0 && entry & (1 << 61) == 0
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
    use super::{Usage, fields, is_private};

    #[test]
    fn fields_are_summed_over_mappings() {
        let text = "7f00-7f10 r-xp 0 00:00 0 /lib/a\nRss: 8 kB\nPss: 4 kB\nAnonymous: 4 kB\n\
                    7f10-7f20 rw-p 0 00:00 0\nRss: 4 kB\nPrivate_Dirty: 4 kB\nAnonymous: 4 kB";
        let expected =
            Usage { anonymous: 8192, private_dirty: 4096, proportional: 4096, resident: 12288 };
        assert_eq!(fields(text.lines()), expected);
    }

    #[test]
    fn pages_of_files_and_absent_pages_are_not_private() {
        assert!(is_private(1 << 63 | 0x1234));
        assert!(is_private(1 << 62));
        assert!(!is_private(1 << 63 | 1 << 61));
        assert!(!is_private(0));
    }
}
