//! The file's end: symbols, strings, a build-id if the executable has none, and the table of sections.

use goblin::elf64::section_header::{SHT_NOTE, SectionHeader};

use super::base::{Base, flaw};
use super::build_id;
use super::error::Error;
use super::manifest::ManifestEntry;
use super::output::Output;
use super::sections::Sections;
use super::symbols;

/// Writes the end, and what belongs to it in the executable's part. The result is the length of the whole file.
pub(super) fn write(
    output: &Output,
    base: &Base,
    members: &[ManifestEntry],
    build_id: &[u8],
    with_symbols: bool,
    offset: u64,
) -> Result<u64, Error> {
    let own = build_id::find(base);
    if let Some(own) = &own {
        // Linkers give 8, 16 or 20 bytes.
        let length = (own.end - own.start).min(build_id.len() as u64);
        output.write(&build_id[..length as usize], own.start)?;
    }
    if own.is_some() && !with_symbols {
        return Ok(offset);
    }
    let mut sections = Sections::of(base).map_err(flaw(&base.path))?;
    let mut end = offset.next_multiple_of(8);
    if own.is_none() {
        let note = build_id::note(build_id);
        output.write(&note, end)?;
        let header = SectionHeader {
            sh_type: SHT_NOTE,
            sh_offset: end,
            sh_size: note.len() as u64,
            sh_addralign: 4,
            ..SectionHeader::default()
        };
        sections.add(".note.gnu.build-id", header);
        end += note.len() as u64;
    }
    if with_symbols {
        end = symbols::write(output, base, members, &mut sections, end)?;
    }
    let table = sections.write(output, end)?;
    table.announce(output)?;
    Ok(table.end())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::trial;
    use std::fs;
    use std::path::Path;

    /// The build-id, and whether it lies where the executable had one.
    fn build_id(directory: &Path, argument: &str, symbols: bool) -> (Vec<u8>, bool) {
        let base = trial::compiled(directory, "base", trial::SOURCE, &[argument]).unwrap();
        let app = trial::sealed_from(directory, &base, symbols);
        let bytes = fs::read(&app).unwrap();
        let own = build_id::find(&Base::open(&base).unwrap());
        // A sealed file is refused as a base, unless its place seems empty.
        let place = Base::open(&base).unwrap().place as usize;
        let mut unsealed = bytes.clone();
        unsealed[place + 32..place + 128].fill(0);
        fs::write(directory.join("unsealed"), unsealed).unwrap();
        let found = build_id::find(&Base::open(&directory.join("unsealed")).unwrap()).unwrap();
        let id = bytes[found.start as usize..found.end as usize].to_vec();
        (id, own == Some(found))
    }

    #[test]
    fn the_build_id_is_that_of_the_content() {
        let directory = tempfile::tempdir().unwrap();
        let id = |argument, symbols| build_id(directory.path(), argument, symbols);
        let (own, in_place) = id("-Wl,--build-id=sha1", true);
        assert!(in_place && own.len() == 20);
        assert_eq!(id("-Wl,--build-id=sha1", false), (own.clone(), true));
        let (short, in_place) = id("-Wl,--build-id=md5", true);
        assert!(in_place && short.len() == 16);
        let (added, in_place) = id("-Wl,--build-id=none", false);
        assert!(!in_place && added.len() == 20 && added != own);
        assert_eq!(id("-Wl,--build-id=none", true), (added, false));
    }
}
