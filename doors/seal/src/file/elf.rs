//! Reads the headers of 64-bit little-endian ELF files, which may lie in other files. Reads are at positions, and only of
//! what is used: the files may have gigabytes.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use goblin::elf64::header::{ELFCLASS64, ELFDATA2LSB, ELFMAG, Header, SIZEOF_EHDR};
use goblin::elf64::program_header::{PT_LOAD, ProgramHeader, SIZEOF_PHDR};
use goblin::elf64::section_header::{SHT_NOBITS, SIZEOF_SHDR, SectionHeader};
use plain::Plain;

/// Why a table could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum Flaw {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{0}")]
    Malformed(&'static str),
}

/// A range of a file that is a file of its own.
#[derive(Clone, Copy)]
pub(super) struct Part<'f> {
    file: &'f File,
    start: u64,
    length: u64,
}

impl<'f> Part<'f> {
    pub(super) fn new(file: &'f File, start: u64, length: u64) -> Part<'f> {
        Part { file, start, length }
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// The bytes of a range, which must lie in the part.
    pub(super) fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>, Flaw> {
        let end = offset.checked_add(length).filter(|end| *end <= self.length);
        end.ok_or(Flaw::Malformed("a table lies outside of the file"))?;
        let length = usize::try_from(length).map_err(|_| Flaw::Malformed("a table is too long"))?;
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, self.start + offset)?;
        Ok(bytes)
    }

    /// A table of `count` entries.
    fn table<T: Plain + Default + Clone>(&self, offset: u64, count: u64) -> Result<Vec<T>, Flaw> {
        let length = count.checked_mul(size_of::<T>() as u64);
        self.read(offset, length.ok_or(Flaw::Malformed("a table is too long"))?)
            .map(|bytes| entries(&bytes))
    }

    /// The bytes of a section.
    pub(super) fn section(&self, section: &SectionHeader) -> Result<Vec<u8>, Flaw> {
        match section.sh_type {
            SHT_NOBITS => Ok(Vec::new()),
            _ => self.read(section.sh_offset, section.sh_size),
        }
    }
}

/// The entries of a table; bytes that fill no entry are left away.
pub(super) fn entries<T: Plain + Default + Clone>(bytes: &[u8]) -> Vec<T> {
    let mut entries = vec![T::default(); bytes.len() / size_of::<T>()];
    let copied = plain::copy_from_bytes(entries.as_mut_slice(), bytes);
    debug_assert!(copied.is_ok(), "the table is as long as its bytes");
    entries
}

/// An ELF file's first tables.
pub(super) struct Elf {
    pub(super) header: Header,
    pub(super) segments: Vec<ProgramHeader>,
}

impl Elf {
    pub(super) fn read(part: Part<'_>) -> Result<Elf, Flaw> {
        if part.length < SIZEOF_EHDR as u64 {
            return Err(Flaw::Malformed("it is no ELF file"));
        }
        let header: Header = part.table(0, 1)?.remove(0);
        if !header.e_ident.starts_with(ELFMAG) {
            return Err(Flaw::Malformed("it is no ELF file"));
        }
        if header.e_ident[4..6] != [ELFCLASS64, ELFDATA2LSB] {
            return Err(Flaw::Malformed("it is no ELF file of 64 bits in little-endian order"));
        }
        if header.e_phnum != 0 && usize::from(header.e_phentsize) != SIZEOF_PHDR {
            return Err(Flaw::Malformed("its program headers have another size than ELF's"));
        }
        let segments = part.table(header.e_phoff, header.e_phnum.into())?;
        Ok(Elf { header, segments })
    }

    /// The section headers; none if the file was stripped of them.
    pub(super) fn sections(&self, part: Part<'_>) -> Result<Vec<SectionHeader>, Flaw> {
        let header = &self.header;
        if header.e_shoff == 0 {
            return Ok(Vec::new());
        }
        if usize::from(header.e_shentsize) != SIZEOF_SHDR {
            return Err(Flaw::Malformed("its section headers have another size than ELF's"));
        }
        if header.e_shnum == 0 {
            return Err(Flaw::Malformed("it has more sections than are supported"));
        }
        part.table(header.e_shoff, header.e_shnum.into())
    }

    /// The segments that are mapped.
    pub(super) fn loads(&self) -> impl Iterator<Item = &ProgramHeader> {
        self.segments.iter().filter(|segment| segment.p_type == PT_LOAD)
    }
}

/// The range of a segment's bytes in its file, cut where the file ends.
pub(super) fn range_in_file(segment: &ProgramHeader, length: u64) -> Range<u64> {
    let end = segment.p_offset.saturating_add(segment.p_filesz).min(length);
    segment.p_offset.min(end)..end
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(bytes: &[u8]) -> Result<Elf, Flaw> {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        Elf::read(Part::new(&file, 0, bytes.len() as u64))
    }

    #[test]
    fn a_text_is_no_elf_file() {
        assert!(matches!(read(b"#!/bin/sh\n"), Err(Flaw::Malformed(_))));
        assert!(matches!(read(&[b' '; 200]), Err(Flaw::Malformed(_))));
    }

    #[test]
    fn tables_outside_of_the_file_are_refused() {
        let mut bytes = std::fs::read("/proc/self/exe").unwrap();
        bytes.truncate(200);
        assert!(matches!(read(&bytes), Err(Flaw::Malformed(_))));
        // e_phoff
        bytes[32..40].fill(0xff);
        assert!(matches!(read(&bytes), Err(Flaw::Malformed(_))));
    }

    #[test]
    fn a_part_of_a_file_is_a_file() {
        let program = std::fs::read("/proc/self/exe").unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 100]).unwrap();
        file.write_all(&program).unwrap();
        let part = Part::new(&file, 100, program.len() as u64);
        let elf = Elf::read(part).unwrap();
        assert!(elf.loads().count() > 0);
        assert!(!elf.sections(part).unwrap().is_empty());
        assert!(part.read(program.len() as u64, 1).is_err());
    }
}
