//! The cache of ldconfig: where this machine has its shared libraries.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// The file that ldconfig writes and ld.so reads.
const CACHE: &str = "/etc/ld.so.cache";

/// The beginning of the cache's current form (glibc, sysdeps/generic/dl-cache.h, `CACHEMAGIC_VERSION_NEW`). Before glibc 2.32 it
/// stood behind a table of the old form.
const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";

/// `struct cache_file_new`, and `struct file_entry_new`.
const HEADER: usize = 48;
const ROW: usize = 24;

/// `FLAG_ELF_LIBC6` with the flag of the machine (sysdeps/generic/ldconfig.h).
const FLAGS: u32 = if cfg!(target_arch = "aarch64") { 0x0a03 } else { 0x0303 };

/// The libraries of the cache, by their names.
#[derive(Debug, Default)]
pub(super) struct Cache(HashMap<String, PathBuf>);

impl Cache {
    /// The machine's. A machine without one has an empty cache, as for ld.so.
    pub(super) fn of_machine() -> Self {
        fs::read(CACHE).ok().and_then(|bytes| Self::parse(&bytes)).unwrap_or_default()
    }

    /// The library that the cache has for a name.
    pub(super) fn get(&self, name: &str) -> Option<&Path> {
        self.0.get(name).map(PathBuf::as_path)
    }

    /// Parses the cache. Rows that lead outside of the file are passed over.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let begin = bytes.windows(MAGIC.len()).position(|window| window == MAGIC)?;
        // Offsets of the current form count from its beginning.
        let bytes = &bytes[begin..];
        let count = word(bytes, MAGIC.len())? as usize;
        let mut libraries = HashMap::new();
        for row in bytes.get(HEADER..)?.chunks_exact(ROW).take(count) {
            let of_processor = row[16..].iter().any(|byte| *byte != 0);
            // Libraries for later processors of the family (`glibc-hwcaps`) would not run on the others.
            if word(row, 0)? != FLAGS || of_processor {
                continue;
            }
            let (Some(name), Some(path)) = (text(bytes, word(row, 4)?), text(bytes, word(row, 8)?))
            else {
                continue;
            };
            // The first one counts, as for ld.so.
            libraries.entry(name.to_owned()).or_insert_with(|| PathBuf::from(path));
        }
        Some(Self(libraries))
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(word.try_into().ok()?))
}

fn text(bytes: &[u8], at: u32) -> Option<&str> {
    let rest = bytes.get(at as usize..)?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache with one row for each name, path, flags and processor.
    fn cache(rows: &[(&str, &str, u32, u64)]) -> Vec<u8> {
        let mut strings = Vec::new();
        let mut table = Vec::new();
        let mut add = |text: &str| {
            let at = HEADER + rows.len() * ROW + strings.len();
            strings.extend_from_slice(text.as_bytes());
            strings.push(0);
            at as u32
        };
        for (name, path, flags, processor) in rows {
            let words = [*flags, add(name), add(path), 0];
            table.extend(words.iter().flat_map(|word| word.to_le_bytes()));
            table.extend(processor.to_le_bytes());
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend((rows.len() as u32).to_le_bytes());
        bytes.resize(HEADER, 0);
        bytes.extend(table);
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn libraries_of_this_machine_for_every_processor_are_found() {
        let bytes = cache(&[
            ("libz.so.1", "/lib32/libz.so.1", 0x0003, 0),
            ("libz.so.1", "/lib/glibc-hwcaps/x86-64-v3/libz.so.1", FLAGS, 1 << 62),
            ("libz.so.1", "/lib/libz.so.1", FLAGS, 0),
            ("libz.so.1", "/opt/libz.so.1", FLAGS, 0),
        ]);
        let old = [b"ld.so-1.7.0\0old rows".as_slice(), &bytes].concat();
        for bytes in [&bytes, &old] {
            let cache = Cache::parse(bytes).unwrap();
            assert_eq!(cache.get("libz.so.1"), Some(Path::new("/lib/libz.so.1")));
            assert_eq!(cache.get("libffi.so.8"), None);
        }
    }

    #[test]
    fn a_damaged_cache_is_an_empty_one() {
        let whole = cache(&[("libz.so.1", "/lib/libz.so.1", FLAGS, 0)]);
        for end in 0..whole.len() {
            let found = Cache::parse(&whole[..end]).unwrap_or_default();
            assert_eq!(found.get("libz.so.1"), None, "{end}");
        }
    }
}
