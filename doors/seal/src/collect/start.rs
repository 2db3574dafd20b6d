//! The records that the start reads: frozen modules, listings of directories, and the finder's first dict.

use super::Collected;
use super::error::CollectError;
use super::file_table::FileTable;
use super::listings::{self, Seat};
use super::workshop::ROOT;
use crate::member::{Bytes, Kind, Member};

/// The directory of records, which no listing shows.
pub(super) const DIRECTORY: &str = ".sealed";

/// The place of the finder's first dict.
pub(crate) const BOOT: &str = ".sealed/boot";

/// The listings of all directories, in order, with the directories' paths.
pub(crate) fn listings<'a>(
    collected: &Collected,
    seats: impl IntoIterator<Item = Seat<'a>>,
) -> Result<Vec<(String, Member)>, CollectError> {
    let all = listings::of(seats, collected.workshop.suffixes());
    let rows: Vec<_> = all
        .values()
        .map(|listing| {
            let files: Vec<_> = listing.files.iter().collect();
            let modules: Vec<_> = listing
                .modules
                .iter()
                .map(|(tail, (is_package, file, offset, length))| {
                    (tail, *is_package, file, *offset, *length)
                })
                .collect();
            (files, modules)
        })
        .collect();
    let marshalled: Vec<Vec<u8>> = collected
        .workshop
        .with(|_, sealing| sealing.call_method("listings", (&rows,))?.extract())?;
    let member = |(directory, bytes): (String, Vec<u8>)| {
        let path = match directory.as_str() {
            "" => format!("{DIRECTORY}/listings"),
            directory => format!("{DIRECTORY}/listings/{directory}"),
        };
        (directory, record(path, bytes))
    };
    Ok(all.into_keys().zip(marshalled).map(member).collect())
}

/// The place of the table of files.
pub(crate) const FILES: &str = ".sealed/files";

/// The table of all files of the members.
pub(crate) fn file_table<'a>(
    collected: &Collected,
    seats: impl IntoIterator<Item = Seat<'a>>,
) -> FileTable {
    FileTable::of(&listings::of(seats, collected.workshop.suffixes()))
}

/// The member that is a table with these bytes.
pub(crate) fn files(bytes: Vec<u8>) -> Member {
    record(FILES.to_owned(), bytes)
}

/// A directory, and the place of its listing.
pub(crate) type Directory = (String, u64, u64);

/// The places of listings that no start needs.
pub(crate) fn others(
    collected: &Collected,
    directories: &[Directory],
) -> Result<Member, CollectError> {
    let others: Vec<_> =
        directories.iter().filter(|one| !collected.paths.contains(&one.0)).collect();
    let bytes = collected
        .workshop
        .with(|_, sealing| sealing.call_method("places", (others,))?.extract())?;
    Ok(record(format!("{DIRECTORY}/others"), bytes))
}

/// The dict that the finder reads first. `directories` has the places of the listings, `others` is where those of
/// [`others`] are, and `resources` where the code of the finder's second module is.
pub(crate) fn boot(
    collected: &Collected,
    directories: &[Directory],
    [others, resources]: [(u64, u64); 2],
    allow: &[String],
) -> Result<Member, CollectError> {
    let directories: Vec<_> =
        directories.iter().filter(|one| collected.paths.contains(&one.0)).collect();
    let frozen: Vec<&str> = collected.frozen.iter().map(|one| one.name.as_str()).collect();
    let entry = collected.program.words();
    let bytes = collected.workshop.with(|session, sealing| {
        let builtins = session.import("builtins")?;
        let entry = builtins.call_method("tuple", (entry,))?;
        let (paths, lines) = (&collected.paths, &collected.lines);
        sealing
            .call_method(
                "boot",
                (ROOT, directories, others, resources, paths, lines, allow, frozen, entry),
            )?
            .extract()
    })?;
    Ok(record(BOOT.to_owned(), bytes))
}

fn record(path: String, bytes: Vec<u8>) -> Member {
    Member { path, kind: Kind::Record, bytes: Bytes::Memory(bytes) }
}
