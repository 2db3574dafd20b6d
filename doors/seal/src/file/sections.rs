//! The table of section headers of a sealed file: the executable's own, and sections that are added.

use goblin::elf64::section_header::{SHT_NULL, SHT_STRTAB, SHT_SYMTAB, SIZEOF_SHDR, SectionHeader};

use super::base::Base;
use super::elf::Flaw;
use super::error::Error;
use super::output::Output;

pub(super) struct Sections {
    headers: Vec<SectionHeader>,
    /// The bytes of the section that has the sections' names, and its index.
    names: Vec<u8>,
    names_at: usize,
}

/// Where the ELF header finds the table.
pub(super) struct Table {
    offset: u64,
    count: u16,
    names: u16,
}

impl Sections {
    /// The sections of an executable.
    pub(super) fn of(base: &Base) -> Result<Sections, Flaw> {
        let headers = base.sections.clone();
        if headers.is_empty() {
            let null = SectionHeader { sh_type: SHT_NULL, ..SectionHeader::default() };
            return Ok(Sections::with_own_names(vec![null], vec![0]));
        }
        let names_at = usize::from(base.elf.header.e_shstrndx);
        let names = headers.get(names_at).filter(|names| names.sh_type == SHT_STRTAB);
        let names = names.ok_or(Flaw::Malformed("its sections have no names"))?;
        let names = base.part().section(names)?;
        let has_symbols_too = headers
            .iter()
            .any(|header| header.sh_type == SHT_SYMTAB && header.sh_link as usize == names_at);
        if has_symbols_too {
            return Ok(Sections::with_own_names(headers, names));
        }
        Ok(Sections { headers, names, names_at })
    }

    /// Adds a section for the names.
    fn with_own_names(headers: Vec<SectionHeader>, names: Vec<u8>) -> Sections {
        let mut sections = Sections { names_at: headers.len(), headers, names };
        sections.add(".shstrtab", strings(0, 0));
        sections
    }

    /// The index of the symbol table.
    pub(super) fn symbols(&self) -> Option<usize> {
        self.headers.iter().position(|header| header.sh_type == SHT_SYMTAB)
    }

    pub(super) fn header(&self, index: usize) -> Option<&SectionHeader> {
        self.headers.get(index)
    }

    /// Adds a section, whose index is the result.
    pub(super) fn add(&mut self, name: &str, header: SectionHeader) -> usize {
        let sh_name = self.names.len() as u32;
        self.names.extend(name.bytes());
        self.names.push(0);
        self.headers.push(SectionHeader { sh_name, ..header });
        self.headers.len() - 1
    }

    /// Puts a section in the place of one, whose name it takes. Without a section to replace, it is added.
    pub(super) fn put(&mut self, at: Option<usize>, name: &str, header: SectionHeader) -> usize {
        match at.and_then(|at| self.headers.get_mut(at).map(|slot| (at, slot))) {
            Some((at, slot)) => {
                *slot = SectionHeader { sh_name: slot.sh_name, ..header };
                at
            }
            None => self.add(name, header),
        }
    }

    /// Writes the names and the table at the file's end.
    pub(super) fn write(mut self, output: &Output, offset: u64) -> Result<Table, Error> {
        output.write(&self.names, offset)?;
        let length = self.names.len() as u64;
        self.put(Some(self.names_at), ".shstrtab", strings(offset, length));
        let offset = (offset + length).next_multiple_of(8);
        let bytes: Vec<u8> = self.headers.iter().flat_map(bytes).collect();
        output.write(&bytes, offset)?;
        let number = |value: usize| u16::try_from(value).unwrap_or(u16::MAX);
        Ok(Table { offset, count: number(self.headers.len()), names: number(self.names_at) })
    }
}

impl Table {
    /// The offset behind it.
    pub(super) fn end(&self) -> u64 {
        self.offset + u64::from(self.count) * SIZEOF_SHDR as u64
    }

    /// Names the table in the ELF header.
    pub(super) fn announce(&self, output: &Output) -> Result<(), Error> {
        // e_shoff; e_shentsize, e_shnum and e_shstrndx.
        output.write(&self.offset.to_le_bytes(), 40)?;
        let words = [SIZEOF_SHDR as u16, self.count, self.names];
        output.write(&words.map(u16::to_le_bytes).concat(), 58)
    }
}

/// The header of a section of strings.
pub(super) fn strings(offset: u64, length: u64) -> SectionHeader {
    SectionHeader {
        sh_type: SHT_STRTAB,
        sh_offset: offset,
        sh_size: length,
        sh_addralign: 1,
        ..SectionHeader::default()
    }
}

fn bytes(header: &SectionHeader) -> [u8; SIZEOF_SHDR] {
    let mut bytes = [0; SIZEOF_SHDR];
    let (int, long) = (|value: u32| value.to_le_bytes(), |value: u64| value.to_le_bytes());
    bytes[0..4].copy_from_slice(&int(header.sh_name));
    bytes[4..8].copy_from_slice(&int(header.sh_type));
    bytes[8..16].copy_from_slice(&long(header.sh_flags));
    bytes[16..24].copy_from_slice(&long(header.sh_addr));
    bytes[24..32].copy_from_slice(&long(header.sh_offset));
    bytes[32..40].copy_from_slice(&long(header.sh_size));
    bytes[40..44].copy_from_slice(&int(header.sh_link));
    bytes[44..48].copy_from_slice(&int(header.sh_info));
    bytes[48..56].copy_from_slice(&long(header.sh_addralign));
    bytes[56..64].copy_from_slice(&long(header.sh_entsize));
    bytes
}
