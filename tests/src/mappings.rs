//! `/proc/self/smaps` and `/proc/self/pagemap`: which pages are present, and which are shared (proc(5)).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use goblin::elf::Elf;
use goblin::elf::program_header::{PF_W, PT_LOAD};

/// Size of a page of x86-64.
pub const PAGE: u64 = 4096;

/// One mapping of this process.
#[derive(Debug, Clone)]
pub struct Mapping {
    /// Addresses.
    pub range: Range<u64>,
    /// Offset of the first page in the file.
    pub offset: u64,
    /// The file, if a file is mapped.
    pub path: Option<PathBuf>,
    /// KiB of the pages that are this process's own copies.
    pub anonymous: u64,
    /// KiB of pages that were changed and not yet written back.
    pub dirty: u64,
    /// KiB of resident pages.
    pub resident: u64,
    /// KiB of resident pages, each divided by the number of its mappings.
    pub proportional: u64,
}

/// All mappings of this process.
///
/// # Errors
///
/// `/proc` is not mounted.
pub fn own() -> Result<Vec<Mapping>> {
    let text = fs::read_to_string("/proc/self/smaps").context("reading /proc/self/smaps")?;
    let mut mappings: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        if let Some(mapping) = header(line) {
            mappings.push(mapping);
        } else if let (Some(mapping), Some((name, value))) =
            (mappings.last_mut(), line.split_once(':'))
        {
            let kib = value
                .trim()
                .strip_suffix(" kB")
                .and_then(|number| number.trim().parse().ok())
                .unwrap_or(0);
            match name {
                "Anonymous" => mapping.anonymous = kib,
                "Private_Dirty" | "Shared_Dirty" => mapping.dirty += kib,
                "Rss" => mapping.resident = kib,
                "Pss" => mapping.proportional = kib,
                _ => {}
            }
        }
    }
    Ok(mappings)
}

/// `7f12…-7f34… r-xp 00001000 08:01 1234   /path`
fn header(line: &str) -> Option<Mapping> {
    let mut fields = line.split_whitespace();
    let (start, end) = fields.next()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let offset = u64::from_str_radix(fields.nth(1)?, 16).ok()?;
    let path = line.find('/').map(|at| PathBuf::from(&line[at..]));
    Some(Mapping {
        range: start..end,
        offset,
        path,
        anonymous: 0,
        dirty: 0,
        resident: 0,
        proportional: 0,
    })
}

/// The addresses of an ELF file that nothing may write: text and read-only data. They are whole pages, relative to the
/// base. Adjoining segments are one range. A segment that is relocated and then protected (RELRO) counts as writable.
///
/// # Errors
///
/// The file cannot be read, or is not an ELF file.
pub fn read_only_ranges(path: &Path) -> Result<Vec<Range<u64>>> {
    let bytes = fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let elf = Elf::parse(&bytes).with_context(|| format!("parsing {}", path.display()))?;
    let mut ranges: Vec<Range<u64>> = Vec::new();
    // Segments are in ascending order of their addresses (gABI, "Program Header").
    for header in elf
        .program_headers
        .iter()
        .filter(|header| header.p_type == PT_LOAD && header.p_flags & PF_W == 0)
    {
        let start = header.p_vaddr / PAGE * PAGE;
        let end = (header.p_vaddr + header.p_memsz).div_ceil(PAGE) * PAGE;
        match ranges.last_mut() {
            Some(last) if last.end >= start => last.end = end,
            _ => ranges.push(start..end),
        }
    }
    Ok(ranges)
}

/// The pages of an address range that are present, counted from the range's start, each with the number of its frame of
/// physical memory. Only a process with CAP_SYS_ADMIN can read that number. Others read 0
/// (Documentation/admin-guide/mm/pagemap.rst).
///
/// # Errors
///
/// `/proc/self/pagemap` cannot be read.
pub fn present_pages(range: &Range<u64>) -> Result<BTreeMap<u64, u64>> {
    const ENTRY: u64 = 8;
    const PRESENT: u64 = 1 << 63;
    const FRAME: u64 = (1 << 55) - 1;
    let file = File::open("/proc/self/pagemap").context("opening /proc/self/pagemap")?;
    let count = (range.end - range.start) / PAGE;
    let mut entries = vec![0; usize::try_from(count * ENTRY)?];
    file.read_exact_at(&mut entries, range.start / PAGE * ENTRY)
        .context("reading /proc/self/pagemap")?;
    let (words, _) = entries.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_ne_bytes(*word));
    let present = (0..).zip(words).filter(|(_, word)| word & PRESENT != 0);
    Ok(present.map(|(page, word)| (page, word & FRAME)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_present_once_it_is_touched() {
        let page = PAGE as usize;
        let block: Vec<u8> = Vec::with_capacity(64 * page);
        let start = (block.as_ptr() as u64).next_multiple_of(PAGE);
        let range = start..start + 16 * PAGE;
        let before = present_pages(&range).unwrap();
        let touched = block
            .as_ptr()
            .wrapping_add((start - block.as_ptr() as u64) as usize + 5 * page)
            .cast_mut();
        // SAFETY: the sixth whole page lies within the vector's 64 pages, which no other code uses.
        unsafe { touched.write_volatile(1) };
        let after = present_pages(&range).unwrap();
        assert!(!before.contains_key(&5) && after.contains_key(&5), "{before:?} {after:?}");
    }

    #[test]
    fn the_first_line_of_a_mapping_is_read() {
        let mapping =
            header("7f00-7f10 r-xp 00002000 08:01 77                 /lib/with space.so").unwrap();
        assert_eq!((mapping.range, mapping.offset), (0x7f00..0x7f10, 0x2000));
        assert_eq!(mapping.path.unwrap(), Path::new("/lib/with space.so"));
        assert!(header("Private_Dirty:         0 kB").is_none());
    }
}
