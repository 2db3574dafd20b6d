//! The functions of a library, by its symbol table.

use goblin::elf64::program_header::PF_X;
use goblin::elf64::section_header::{SHN_UNDEF, SHT_DYNSYM, SHT_STRTAB, SHT_SYMTAB, SectionHeader};
use goblin::elf64::sym::{STT_FUNC, STT_GNU_IFUNC, Sym, st_type};

use super::elf::{Elf, Flaw, Part, entries};

pub(super) struct Functions {
    elf: Elf,
    symbols: Vec<Sym>,
    names: Vec<u8>,
    /// Of the library's file.
    length: u64,
}

/// A function's code in its library.
pub(super) struct Function<'n> {
    pub(super) name: &'n [u8],
    /// Of its first byte, from the start of the library's file.
    pub(super) offset: u64,
    pub(super) length: u64,
    /// STT_FUNC or STT_GNU_IFUNC.
    pub(super) kind: u8,
}

impl Functions {
    /// The table with local functions, or else that of the dynamic linker, which has the exported ones alone. `None` for a
    /// library without both.
    pub(super) fn read(part: Part<'_>) -> Result<Option<Functions>, Flaw> {
        let elf = Elf::read(part)?;
        let sections = elf.sections(part)?;
        let table = |kind| sections.iter().find(|section| section.sh_type == kind);
        let Some(table) = table(SHT_SYMTAB).or_else(|| table(SHT_DYNSYM)) else {
            return Ok(None);
        };
        let symbols = entries(&part.section(table)?);
        let names = part.section(names_of(table, &sections)?)?;
        Ok(Some(Functions { elf, symbols, names, length: part.length() }))
    }

    /// Those whose code is in the file.
    pub(super) fn iter(&self) -> impl Iterator<Item = Function<'_>> {
        self.symbols.iter().filter_map(|symbol| {
            let kind = st_type(symbol.st_info);
            let defined = u32::from(symbol.st_shndx) != SHN_UNDEF;
            if !defined || !matches!(kind, STT_FUNC | STT_GNU_IFUNC) {
                return None;
            }
            let name = self.names.get(symbol.st_name as usize..)?;
            let name = &name[..name.iter().position(|byte| *byte == 0)?];
            let offset = self.offset(symbol.st_value).filter(|_| !name.is_empty())?;
            Some(Function { name, offset, length: symbol.st_size, kind })
        })
    }

    /// The offset in the file of code at an address.
    fn offset(&self, address: u64) -> Option<u64> {
        let mut code = self.elf.loads().filter(|segment| segment.p_flags & PF_X != 0);
        code.find_map(|segment| {
            let inside = address.checked_sub(segment.p_vaddr)?;
            (inside < segment.p_filesz).then_some(())?;
            segment.p_offset.checked_add(inside).filter(|offset| *offset < self.length)
        })
    }
}

/// The section with the names of a table's symbols.
pub(super) fn names_of<'s>(
    table: &SectionHeader,
    sections: &'s [SectionHeader],
) -> Result<&'s SectionHeader, Flaw> {
    let names = sections.get(table.sh_link as usize);
    let names = names.filter(|names| names.sh_type == SHT_STRTAB);
    names.ok_or(Flaw::Malformed("its symbols have no names"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::trial;
    use std::fs::{self, File};
    use std::path::Path;

    fn functions(path: &Path) -> Option<Vec<(String, u64)>> {
        let file = File::open(path).unwrap();
        let part = Part::new(&file, 0, file.metadata().unwrap().len());
        let functions = Functions::read(part).unwrap()?;
        let named = |function: Function<'_>| {
            (String::from_utf8(function.name.to_vec()).unwrap(), function.offset)
        };
        Some(functions.iter().map(named).collect())
    }

    #[test]
    fn local_functions_are_found_where_their_code_is() {
        let directory = tempfile::tempdir().unwrap();
        let library = trial::library(directory.path(), "libtrial.so", &[]);
        let found = functions(&library).unwrap();
        let (_, offset) = found.iter().find(|(name, _)| name == "hidden").unwrap();
        let bytes = fs::read(&library).unwrap();
        // The function returns a number that stands in its code.
        let code = &bytes[*offset as usize..][..32];
        assert!(code.windows(4).any(|word| word == trial::NUMBER.to_le_bytes()), "{code:x?}");
        assert!(found.iter().all(|(name, _)| name != "puts"), "puts is another library's");
    }

    #[test]
    fn a_stripped_library_has_its_exported_functions() {
        let directory = tempfile::tempdir().unwrap();
        let library = trial::library(directory.path(), "libtrial.so", &["-s"]);
        let found = functions(&library).unwrap();
        assert!(found.iter().any(|(name, _)| name == "shown"));
        assert!(found.iter().all(|(name, _)| name != "hidden"));
    }

    #[test]
    fn a_library_without_section_headers_has_none() {
        let directory = tempfile::tempdir().unwrap();
        let library = trial::library(directory.path(), "libtrial.so", &[]);
        let mut bytes = fs::read(&library).unwrap();
        bytes[40..48].fill(0);
        fs::write(&library, bytes).unwrap();
        assert!(functions(&library).is_none());
    }
}
