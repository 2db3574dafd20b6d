//! The build-id of a sealed file. Debuggers and profilers keep symbols by it, so that the file may not have that of its
//! executable.

use std::ops::Range;

use goblin::elf64::program_header::PT_NOTE;
use goblin::elf64::section_header::SHT_NOTE;
use sha2::{Digest, Sha256};

use super::base::Base;
use super::manifest::ManifestEntry;

/// The number of bytes that linkers give.
const LENGTH: usize = 20;

/// An owner's name and a type: that of build-ids (elf/elf.h of glibc, NT_GNU_BUILD_ID).
const OWNER: &[u8] = b"GNU\0";
const TYPE: u32 = 3;

/// The build-id of an executable with these members.
pub(super) fn of(base: &[u8; 32], members: &[ManifestEntry]) -> Vec<u8> {
    let mut hasher = Sha256::new_with_prefix(base);
    for member in members {
        for field in [&member.path, &member.sha256] {
            hasher.update(field.len().to_le_bytes());
            hasher.update(field);
        }
    }
    hasher.finalize()[..LENGTH].to_vec()
}

/// A note with a build-id.
pub(super) fn note(id: &[u8]) -> Vec<u8> {
    let mut note = Vec::new();
    for word in [OWNER.len() as u32, id.len() as u32, TYPE] {
        note.extend(word.to_le_bytes());
    }
    note.extend(OWNER);
    note.extend(id);
    note
}

/// The most bytes of a segment or section of notes that are searched.
const MOST: u64 = 1 << 20;

/// Where the bytes of the executable's own build-id are.
pub(super) fn find(base: &Base) -> Option<Range<u64>> {
    let segments = base.elf.segments.iter().filter(|segment| segment.p_type == PT_NOTE);
    let segments = segments.map(|segment| (segment.p_offset, segment.p_filesz, segment.p_align));
    let sections = base.sections.iter().filter(|section| section.sh_type == SHT_NOTE);
    let sections =
        sections.map(|section| (section.sh_offset, section.sh_size, section.sh_addralign));
    segments.chain(sections).find_map(|(offset, length, alignment)| {
        let bytes = base.part().read(offset, length.min(MOST)).ok()?;
        let found = find_in(&bytes, if alignment == 8 { 8 } else { 4 })?;
        Some(offset + found.start as u64..offset + found.end as u64)
    })
}

/// Where a build-id is in the bytes of notes.
fn find_in(bytes: &[u8], alignment: usize) -> Option<Range<usize>> {
    let mut start = 0_usize;
    loop {
        let word = |index: usize| {
            let at = start.checked_add(4 * index)?;
            let word = bytes.get(at..at.checked_add(4)?)?;
            Some(u32::from_le_bytes(word.try_into().ok()?))
        };
        let (owner, id, kind) = (word(0)? as usize, word(1)? as usize, word(2)?);
        let name = start.checked_add(12)?;
        let text = name.checked_add(owner)?.checked_next_multiple_of(alignment)?;
        let end = text.checked_add(id)?;
        bytes.get(text..end)?;
        if kind == TYPE && bytes.get(name..name + owner)? == OWNER && id > 0 {
            return Some(text..end);
        }
        start = end.checked_next_multiple_of(alignment)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_id_is_found_behind_another_note() {
        let mut notes = Vec::new();
        for word in [4_u32, 3, 1] {
            notes.extend(word.to_le_bytes());
        }
        notes.extend(b"GNU\0abc\0");
        let start = notes.len() + 16;
        notes.extend(note(&[7; 20]));
        assert_eq!(find_in(&notes, 4), Some(start..start + 20));
        for length in 0..notes.len() {
            assert_eq!(find_in(&notes[..length], 4), None, "{length}");
        }
    }

    #[test]
    fn huge_notes_are_passed_over() {
        for byte in [0, 0xff] {
            assert_eq!(find_in(&[byte; 100], 4), None);
            assert_eq!(find_in(&[byte; 100], 8), None);
        }
    }
}
