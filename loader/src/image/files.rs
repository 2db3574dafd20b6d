//! Files in a container that code in replicas opens by paths below an enclosure's root.
//!
//! The table lies in the container. It begins with the number of entries; each entry has 32 bytes. Entries are sorted by their
//! paths below the root, name by name, so that a directory is followed by all that lies in it. Numbers have the lowest byte first.
//!
//! | bytes | hold |
//! |---|---|
//! | 0..8 | where the path's bytes begin in the container |
//! | 8..12 | their number |
//! | 12..16 | 0: a file; 1: a directory |
//! | 16..24 | where the file's bytes begin in the container |
//! | 24..32 | their number |
//!
//! Every number is checked when it is used: in a damaged table paths are missing, and nothing worse happens.

use std::cmp::Ordering;
use std::ops::Range;

use crate::image::container::Container;

/// A table of files in a container.
#[derive(Clone, Debug)]
pub struct FileTable {
    container: Container,
    entries: Range<usize>,
}

/// The meaning of a path in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableEntry {
    File { index: usize, bytes: &'static [u8] },
    Directory { index: usize },
}

const ENTRY: usize = 32;

impl FileTable {
    /// The table in `range` of `container`; none if it does not lie there.
    pub fn new(container: &Container, range: Range<usize>) -> Option<FileTable> {
        let table = container.bytes().get(range.clone())?;
        let count = usize::try_from(word(table, 0)?).ok()?;
        let start = range.start + size_of::<u64>();
        let end = count.checked_mul(ENTRY)?.checked_add(start)?;
        (end <= range.end).then(|| FileTable { container: container.clone(), entries: start..end })
    }

    /// The container.
    pub(crate) fn container(&self) -> &Container {
        &self.container
    }

    fn count(&self) -> usize {
        self.entries.len() / ENTRY
    }

    fn entry(&self, index: usize) -> Option<&'static [u8]> {
        let start = self.entries.start + index * ENTRY;
        (index < self.count()).then(|| &self.container.bytes()[start..start + ENTRY])
    }

    fn path(&self, index: usize) -> Option<&'static [u8]> {
        let entry = self.entry(index)?;
        let start = usize::try_from(word(entry, 0)?).ok()?;
        let length = u32::from_le_bytes(entry[8..12].try_into().ok()?) as usize;
        self.container.bytes().get(start..start.checked_add(length)?)
    }

    fn at(&self, index: usize) -> Option<TableEntry> {
        let entry = self.entry(index)?;
        if entry[12] == 1 {
            return Some(TableEntry::Directory { index });
        }
        let [start, length] = [16, 24].map(|at| word(entry, at).map(usize::try_from));
        let (start, length) = (start?.ok()?, length?.ok()?);
        let bytes = self.container.bytes().get(start..start.checked_add(length)?)?;
        Some(TableEntry::File { index, bytes })
    }

    /// The first of the entries from `low` on for which `is_before` is false.
    fn first(&self, mut low: usize, is_before: impl Fn(&[u8]) -> bool) -> usize {
        let mut high = self.count();
        while low < high {
            let middle = low + (high - low) / 2;
            match self.path(middle) {
                Some(path) if !is_before(path) => high = middle,
                _ => low = middle + 1,
            }
        }
        low
    }

    fn index(&self, path: &[u8]) -> Option<usize> {
        let index = self.first(0, |there| by_names(there, path) == Ordering::Less);
        (self.path(index)? == path).then_some(index)
    }

    /// The entry for a path below the root, without `.`, `..` and slashes at its ends. The root is the empty path.
    pub(crate) fn find(&self, path: &[u8]) -> Option<TableEntry> {
        self.at(self.index(path)?)
    }

    /// The names in a directory, each with what it stands for.
    pub(crate) fn names(&self, directory: &[u8]) -> Vec<(&'static [u8], TableEntry)> {
        let mut names = Vec::new();
        let Some(start) = self.index(directory) else { return names };
        let mut index = start + 1;
        while let Some(path) = self.path(index)
            && let Some(name) = inside(path, directory)
        {
            let entry = self.at(index);
            names.extend(entry.map(|entry| (name, entry)));
            index = self.first(index + 1, |there| inside(there, path).is_some());
        }
        names
    }
}

/// The rest of a path behind a directory.
fn inside<'a>(path: &'a [u8], directory: &[u8]) -> Option<&'a [u8]> {
    match directory {
        b"" => (!path.is_empty()).then_some(path),
        directory => path.strip_prefix(directory)?.strip_prefix(b"/"),
    }
}

/// The order of paths in a table: a slash is less than every other byte.
pub fn by_names(one: &[u8], other: &[u8]) -> Ordering {
    let rank = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
    one.iter().map(rank).cmp(other.iter().map(rank))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A container whose table has these paths; a path with a slash at its end is a directory's.
    fn table(paths: &[&str]) -> FileTable {
        let mut sorted: Vec<&str> = paths.to_vec();
        sorted.sort_by(|one, other| {
            let [one, other] = [one, other].map(|path| path.trim_end_matches('/').as_bytes());
            by_names(one, other)
        });
        let names_at = 8 + ENTRY * sorted.len();
        let (mut entries, mut names) = (Vec::new(), Vec::new());
        for path in sorted {
            let name = path.trim_end_matches('/');
            entries.extend(((names_at + names.len()) as u64).to_le_bytes());
            entries.extend((name.len() as u32).to_le_bytes());
            entries.extend(u32::from(path.ends_with('/') || path.is_empty()).to_le_bytes());
            entries.extend((names_at as u64).to_le_bytes());
            entries.extend((name.len() as u64).to_le_bytes());
            names.extend(name.as_bytes());
        }
        let count = (entries.len() / ENTRY) as u64;
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(&file, [&count.to_le_bytes(), &*entries, &*names].concat()).unwrap();
        let container = Container::open(file.path()).unwrap();
        let length = container.bytes().len();
        FileTable::new(&container, 0..length).unwrap()
    }

    #[test]
    fn paths_are_found_and_directories_list_what_is_in_them() {
        let paths = ["", "a/", "a/b", "a/c/", "a/c/d/", "a/c/d/e", "a-b", "a.py", "z/"];
        let table = table(&paths);
        for path in paths {
            let is_directory = path.is_empty() || path.ends_with('/');
            let found = table.find(path.trim_end_matches('/').as_bytes()).unwrap();
            assert_eq!(matches!(found, TableEntry::Directory { .. }), is_directory, "{path}");
        }
        assert_eq!(table.find(b"a/x"), None);
        let names = |directory: &str| -> Vec<String> {
            let names = table.names(directory.as_bytes()).into_iter();
            names.map(|(name, _)| String::from_utf8_lossy(name).into_owned()).collect()
        };
        assert_eq!(names(""), ["a", "a-b", "a.py", "z"]);
        assert_eq!(names("a"), ["b", "c"]);
        assert_eq!(names("a/c/d"), ["e"]);
        assert!(names("z").is_empty() && names("a/b").is_empty());
    }

    #[test]
    fn damaged_tables_lack_paths() {
        let good = table(&["", "a/", "a/b", "c"]);
        let bytes = good.container.bytes();
        for at in 0..bytes.len() {
            let mut damaged = bytes.to_vec();
            damaged[at] ^= 0xff;
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(&file, &damaged).unwrap();
            let container = Container::open(file.path()).unwrap();
            if let Some(table) = FileTable::new(&container, 0..damaged.len()) {
                let _ = (table.find(b"a/b"), table.find(b"c"), table.names(b""), table.names(b"a"));
            }
        }
    }
}
