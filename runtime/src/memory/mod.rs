//! The memory that interpreters and processes take.
//!
//! There is one definition of private memory, for interpreters and for everything that they are compared with:
//! *anonymous* pages that no other process maps. An anonymous page belongs to no file. It is part of a heap or a stack,
//! or a page of a mapped file that was written and so became a copy. A page that a forked child still shares with its
//! parent is not private.
//!
//! `Private_Dirty` of proc(5) is another quantity. It counts a page of a file that was written shortly before, and
//! does not count an anonymous page that the kernel holds clean.

use crate::interpreter::Interpreter;
use crate::{Error, Result};
use std::fs::{self, File};
use std::io;
use std::ops::{Range, Sub};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Memory of a process in bytes, from `/proc/PID/smaps` and `/proc/PID/pagemap` (proc(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Anonymous pages that no other process maps, in memory or swapped out.
    pub private: i64,
    /// `Pss`: all resident pages, each divided by the number of mappings that share it.
    pub proportional: i64,
    /// `Rss`: all resident pages.
    pub resident: i64,
}

impl Usage {
    /// The memory that this process uses now. The difference of two readings, before and after the start of
    /// an interpreter or a load, is the cost of it if nothing else allocates meanwhile.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] where `/proc` is not mounted.
    pub fn of_process() -> Result<Self> {
        Self::of(std::process::id())
    }

    /// The memory that a process uses now.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], if the process has ended, or this one may not trace it (ptrace(2)).
    pub fn of(process: u32) -> Result<Self> {
        Self::of_mappings(process, |_| true)
    }

    /// The memory of a process in its mappings of `file`. Private pages are those that it has copied.
    ///
    /// # Errors
    ///
    /// [`Error::Io`], as for [`Usage::of`], or when the file does not exist.
    pub fn of_file(process: u32, file: &Path) -> Result<Self> {
        let failed = |source| Error::Io { path: file.to_owned(), source };
        let file = file.canonicalize().map_err(failed)?;
        Self::of_mappings(process, |mapped| file.to_str() == Some(mapped))
    }

    /// Sums the mappings whose file's path, or empty text, `wanted` accepts.
    fn of_mappings(process: u32, wanted: impl Fn(&str) -> bool) -> Result<Self> {
        let pagemap = Pagemap::open(&format!("/proc/{process}/pagemap"))?;
        let path = PathBuf::from(format!("/proc/{process}/smaps"));
        let text = fs::read_to_string(&path).map_err(|source| Error::Io { path, source })?;
        let mut usage = Self::default();
        for mapping in mappings(&text).filter(|mapping| wanted(mapping.file)) {
            usage.proportional += mapping.proportional;
            usage.resident += mapping.resident;
            // Most mappings have none, and some of those are enormous reservations.
            if mapping.anonymous != 0 {
                usage.private += pagemap.private(mapping.range)? as i64;
            }
        }
        Ok(usage)
    }
}

/// Returns free heap pages to the kernel, in all of malloc's arenas.
///
/// A load makes and frees tens of thousands of objects, and the first call has the largest
/// intermediate results. glibc returns of that only what lies at the end of an arena
/// (malloc_trim(3)), and an object of the model that lies behind it keeps everything. So this is done
/// once for each load, when the session ends in which it happened. It is not done for each call: who
/// needs the pages would fault them in again.
///
/// Each arena is locked while it is looked at (`mtrim` in glibc's malloc/malloc.c). With four
/// interpreters that have torch and a resnet18 each, 1.6 GB, the whole of it takes 1 ms of processor
/// time after a load, 3 ms after a load with a large call, and 0.02 to 0.5 ms with nothing to return.
/// A load takes hundreds of times as long.
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
            private: self.private - earlier.private,
            proportional: self.proportional - earlier.proportional,
            resident: self.resident - earlier.resident,
        }
    }
}

impl Interpreter {
    /// Private memory of the replicas in this interpreter's domain, in bytes. (`smaps` does not show it:
    /// the kernel merges a replica's bss with a neighbouring mapping.) It excludes heap and TLS; measure
    /// those by the difference of two [`Usage::of_process`].
    ///
    /// # Errors
    ///
    /// [`Error::Io`] where `/proc` is not mounted.
    pub fn replica_memory(&self) -> Result<u64> {
        let pagemap = Pagemap::open("/proc/self/pagemap")?;
        let replicas = self.domain().replicas();
        let ranges = replicas.iter().map(|replica| replica.base..replica.base + replica.size);
        ranges.map(|range| pagemap.private(range)).sum()
    }
}

/// Bytes of a page on x86-64, and of its entry in pagemap.
const PAGE: usize = 4096;
const ENTRY: usize = 8;

/// The kernel's record of each page of a process.
struct Pagemap {
    file: File,
    path: PathBuf,
}

impl Pagemap {
    fn open(path: &str) -> Result<Self> {
        let path = PathBuf::from(path);
        match File::open(&path) {
            Ok(file) => Ok(Self { file, path }),
            Err(source) => Err(Error::Io { path, source }),
        }
    }

    /// Bytes of a range that are private.
    fn private(&self, range: Range<usize>) -> Result<u64> {
        let mut entries = [0; 4096 * ENTRY];
        let mut pages = 0;
        let (mut page, end) = (range.start / PAGE, range.end.div_ceil(PAGE));
        while page < end {
            let length = entries.len().min((end - page) * ENTRY);
            let read = self.file.read_at(&mut entries[..length], (page * ENTRY) as u64);
            match read {
                // The mapping is gone.
                Ok(0) => break,
                Ok(length) => {
                    let (entries, _) = entries[..length].as_chunks::<ENTRY>();
                    let private = |entry: &&[u8; ENTRY]| is_private(u64::from_ne_bytes(**entry));
                    pages += entries.iter().filter(private).count();
                    page += entries.len();
                }
                Err(source) if source.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::Io { path: self.path.clone(), source }),
            }
        }
        Ok((pages * PAGE) as u64)
    }
}

/// Whether a page is neither a file's nor shared memory (bit 61), and is swapped out (bit 62), or in memory (bit
/// 63) and mapped by this process alone (bit 56): Documentation/admin-guide/mm/pagemap.rst of the kernel. The page of
/// zeros, which stands for pages that were only read, is mapped by no process alone.
fn is_private(entry: u64) -> bool {
    let is = |bit: u32| entry & 1 << bit != 0;
    !is(61) && (is(62) || is(63) && is(56))
}

/// One mapping of `/proc/PID/smaps`; sizes are in bytes.
#[derive(Debug, PartialEq, Eq)]
struct Mapping<'text> {
    range: Range<usize>,
    /// Its file, or the kernel's name for it, or nothing.
    file: &'text str,
    /// `Anonymous` and `Swap`: more than is private, if anything is.
    anonymous: i64,
    proportional: i64,
    resident: i64,
}

/// The mappings of a text in the form of smaps: a line as in `/proc/PID/maps`, then `Name:   123 kB`.
fn mappings(text: &str) -> impl Iterator<Item = Mapping<'_>> {
    let mut lines = text.lines().peekable();
    std::iter::from_fn(move || {
        let mut mapping = lines.find_map(header)?;
        while let Some(line) = lines.next_if(|line| header(line).is_none()) {
            let Some((name, value)) = line.split_once(':') else { continue };
            let sum = match name {
                "Anonymous" | "Swap" => &mut mapping.anonymous,
                "Pss" => &mut mapping.proportional,
                "Rss" => &mut mapping.resident,
                _ => continue,
            };
            let kib: i64 = value.trim().trim_end_matches(" kB").parse().unwrap_or_default();
            *sum += 1024 * kib;
        }
        Some(mapping)
    })
}

/// `7f12…-7f34… r-xp 00001000 08:01 1234   /path`
fn header(line: &str) -> Option<Mapping<'_>> {
    let (start, rest) = line.split_once('-')?;
    let (end, rest) = rest.split_once(' ')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    // After rights, offset, device and inode.
    let file = rest.splitn(5, ' ').nth(4).unwrap_or_default().trim_start();
    let range = address(start)?..address(end)?;
    Some(Mapping { range, file, anonymous: 0, proportional: 0, resident: 0 })
}

#[cfg(test)]
mod tests {
    use super::{Mapping, is_private, mappings};

    #[test]
    fn mappings_are_read_with_their_files() {
        let text = "7f00-7f10 r-xp 00002000 08:01 77      /lib/with space.so\nRss: 8 kB\nPss: 4 kB\n\
                    Pss_Dirty: 4 kB\nAnonymous: 4 kB\nSwap: 0 kB\nVmFlags: rd ex\n\
                    7f10-7f20 rw-p 00000000 00:00 0 \nRss: 4 kB\nPrivate_Dirty: 4 kB\nSwap: 4 kB";
        let mapping = |range, file, [anonymous, proportional, resident]: [i64; 3]| Mapping {
            range,
            file,
            anonymous: anonymous << 10,
            proportional: proportional << 10,
            resident: resident << 10,
        };
        let expected = [
            mapping(0x7f00..0x7f10, "/lib/with space.so", [4, 4, 8]),
            mapping(0x7f10..0x7f20, "", [4, 0, 4]),
        ];
        assert_eq!(mappings(text).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn pages_of_files_shared_pages_and_absent_pages_are_not_private() {
        assert!(is_private(1 << 63 | 1 << 56 | 0x1234));
        assert!(is_private(1 << 62));
        assert!(!is_private(1 << 63 | 0x1234));
        assert!(!is_private(1 << 63 | 1 << 61 | 1 << 56));
        assert!(!is_private(0));
    }
}
