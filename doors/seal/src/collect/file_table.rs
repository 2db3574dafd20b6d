//! The table of all files, which the application's native code finds by their paths (`hydrozoa_loader::FileTable`).

use std::collections::BTreeMap;

use super::listings::Listing;
use hydrozoa::loader::by_names;

/// Bytes of an entry.
const ENTRY: usize = 32;

/// The rows of a table, in order: a path with the place of its file, or without one for a directory.
pub(crate) struct FileTable(Vec<(String, Option<(u64, u64)>)>);

impl FileTable {
    pub(crate) fn of(listings: &BTreeMap<String, Listing>) -> FileTable {
        let mut rows: Vec<_> = listings.keys().map(|path| (path.clone(), None)).collect();
        for (directory, listing) in listings {
            for (name, place) in listing.files.iter().filter(|(_, place)| place.is_some()) {
                let path = match directory.as_str() {
                    "" => name.clone(),
                    directory => format!("{directory}/{name}"),
                };
                rows.push((path, *place));
            }
        }
        rows.sort_by(|(one, _), (other, _)| by_names(one.as_bytes(), other.as_bytes()));
        FileTable(rows)
    }

    /// How many bytes it takes.
    pub(crate) fn length(&self) -> u64 {
        let names: usize = self.0.iter().map(|(path, _)| path.len()).sum();
        (size_of::<u64>() + self.0.len() * ENTRY + names) as u64
    }

    /// Its bytes, if it begins at `offset` of the file.
    pub(crate) fn bytes(&self, offset: u64) -> Vec<u8> {
        let mut table = (self.0.len() as u64).to_le_bytes().to_vec();
        let mut names: Vec<u8> = Vec::new();
        let names_at = offset + (size_of::<u64>() + self.0.len() * ENTRY) as u64;
        for (path, place) in &self.0 {
            table.extend((names_at + names.len() as u64).to_le_bytes());
            table.extend((path.len() as u32).to_le_bytes());
            table.extend(u32::from(place.is_none()).to_le_bytes());
            let (start, length) = place.unwrap_or_default();
            table.extend(start.to_le_bytes());
            table.extend(length.to_le_bytes());
            names.extend(path.as_bytes());
        }
        table.extend(names);
        table
    }
}
