//! The pages of a process, as `/proc/PID/smaps` and `/proc/PID/pagemap` describe them.

use crate::{Error, Result};
use hydrozoa_payload::pages::page_size;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Bytes of a page's entry in pagemap, and in a page table of the lowest level, which takes a page itself.
const ENTRY: usize = 8;

/// The kernel's record of each page of a process.
pub(super) struct Pagemap {
    file: File,
    path: PathBuf,
}

impl Pagemap {
    pub(super) fn of(process: u32) -> Result<Self> {
        let path = PathBuf::from(format!("/proc/{process}/pagemap"));
        match File::open(&path) {
            Ok(file) => Ok(Self { file, path }),
            Err(source) => Err(Error::Io { path, source }),
        }
    }

    /// The pages of a range, by their kinds.
    pub(super) fn count(&self, range: Range<usize>) -> Result<Pages> {
        let mut pages = Pages::default();
        self.each(range, |_, entry| pages.add(entry))?;
        Ok(pages)
    }

    /// The same. `tables` gets the numbers of the page tables that the pages need, once each if the ranges ascend.
    pub(super) fn count_with_tables(
        &self,
        range: Range<usize>,
        tables: &mut Vec<usize>,
    ) -> Result<Pages> {
        let mut pages = Pages::default();
        self.each(range, |page, entry| {
            pages.add(entry);
            let table = page / (page_size() / ENTRY);
            if is_present(entry) && tables.last() != Some(&table) {
                tables.push(table);
            }
        })?;
        Ok(pages)
    }

    /// Calls `action` with the number and the entry of each page of a range.
    fn each(&self, range: Range<usize>, mut action: impl FnMut(usize, u64)) -> Result<()> {
        let mut entries = [0; 4096 * ENTRY];
        let (mut page, end) = (range.start / page_size(), range.end.div_ceil(page_size()));
        while page < end {
            let length = entries.len().min((end - page) * ENTRY);
            let read = self.file.read_at(&mut entries[..length], (page * ENTRY) as u64);
            match read {
                // The mapping is gone.
                Ok(0) => break,
                Ok(length) => {
                    let (entries, _) = entries[..length].as_chunks::<ENTRY>();
                    for (number, entry) in (page..).zip(entries) {
                        action(number, u64::from_ne_bytes(*entry));
                    }
                    page += entries.len();
                }
                Err(source) if source.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::Io { path: self.path.clone(), source }),
            }
        }
        Ok(())
    }
}

/// Pages of a range by their kinds, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pages {
    /// Those that are private, as the parent module defines it.
    pub(super) private: u64,
    /// Those of files, and of shared memory, that are in memory.
    pub(super) of_files: u64,
    /// All that are in memory.
    pub(super) resident: u64,
}

impl Pages {
    fn add(&mut self, entry: u64) {
        let page = page_size() as u64;
        self.private += if is_private(entry) { page } else { 0 };
        self.of_files += if has(entry, 61) && has(entry, 63) { page } else { 0 };
        self.resident += if has(entry, 63) { page } else { 0 };
    }
}

/// Whether a page is in memory or swapped out.
fn is_present(entry: u64) -> bool {
    has(entry, 62) || has(entry, 63)
}

/// Whether a page is neither a file's nor shared memory (bit 61), and is swapped out (bit 62), or in memory (bit
/// 63) and mapped by this process alone (bit 56): Documentation/admin-guide/mm/pagemap.rst of the kernel. The page of
/// zeros, which stands for pages that were only read, is mapped by no process alone.
fn is_private(entry: u64) -> bool {
    !has(entry, 61) && (has(entry, 62) || has(entry, 63) && has(entry, 56))
}

fn has(entry: u64, bit: u32) -> bool {
    entry & 1 << bit != 0
}

/// One mapping of `/proc/PID/smaps`; sizes are in bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mapping<'text> {
    pub(super) range: Range<usize>,
    /// Its file, or the kernel's name for it, or nothing.
    pub(super) file: &'text str,
    /// `Anonymous` and `Swap`: more than is private, if anything is.
    pub(super) anonymous: i64,
    pub(super) proportional: i64,
    pub(super) resident: i64,
}

/// The mappings of a text in the form of smaps: a line as in `/proc/PID/maps`, then `Name:   123 kB`.
pub(super) fn mappings(text: &str) -> impl Iterator<Item = Mapping<'_>> {
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
