//! The symbols of the libraries in the executable's symbol table.
//!
//! A library's code is mapped from the sealed file. perf, unaided, looks for a name of such code in the symbols of that
//! file, by the offset in the file. Its rules (tools/perf/util/symbol-elf.c, `dso__load_sym_internal`):
//!
//! - The section of a symbol must have "text" in its name, and since Linux 6.0 the flag SHF_ALLOC.
//! - The offset of a symbol is its value, less the difference between the address and the offset of the *segment* that has
//!   it; less that of its section only where no segment has it.
//!
//! Libraries lie in no segment. Their section has addresses that no process has: offsets themselves would also be addresses
//! of the executable's zeroed data, and gdb would take each pointer into the heap, which follows, for a function. Without
//! SHF_EXECINSTR gdb sets no breakpoint there: it finds the functions in extracted libraries, by `solib-search-path`.

use goblin::elf64::section_header::{SHF_ALLOC, SHT_PROGBITS, SHT_SYMTAB, SectionHeader};
use goblin::elf64::sym::{SIZEOF_SYM, STB_LOCAL, STV_DEFAULT, Sym};

use super::base::{Base, flaw};
use super::elf::{Flaw, Part, entries};
use super::error::Error;
use super::functions::{Functions, names_of};
use super::manifest::ManifestEntry;
use super::output::Output;
use super::sections::{Sections, strings};
use super::strings::Strings;
use crate::member::Kind;

/// The name of the section in which the libraries lie.
const SECTION: &str = ".text.sealed";

/// The difference between addresses and offsets in that section: more than the addresses of any processor.
const FAR: u64 = 1 << 60;

/// Writes the symbol table with its strings. The result is the offset behind them.
pub(super) fn write(
    output: &Output,
    base: &Base,
    members: &[ManifestEntry],
    sections: &mut Sections,
    offset: u64,
) -> Result<u64, Error> {
    let own = Own::read(base, sections).map_err(flaw(&base.path))?;
    let section = sections.add(SECTION, section());
    let mut names = Strings::new(output, offset);
    names.append(&own.names)?;
    // The symbols that are local come first, and their number is in the header.
    let (local, others) = own.symbols.split_at(own.local);
    let mut symbols = local.to_vec();
    for library in members.iter().filter(|member| member.kind == Kind::Library) {
        add(output, library, section as u16, &mut names, &mut symbols)?;
    }
    let local = symbols.len();
    symbols.extend(others);

    let length = names.finish()?;
    let names = sections.put(own.names_at, ".strtab", strings(offset, length));
    let offset = (offset + length).next_multiple_of(8);
    let mut bytes = Vec::with_capacity(symbols.len() * SIZEOF_SYM);
    symbols.iter().for_each(|symbol| push(symbol, &mut bytes));
    output.write(&bytes, offset)?;
    let header = SectionHeader {
        sh_type: SHT_SYMTAB,
        sh_offset: offset,
        sh_size: bytes.len() as u64,
        sh_link: names as u32,
        sh_info: local as u32,
        sh_addralign: 8,
        sh_entsize: SIZEOF_SYM as u64,
        ..SectionHeader::default()
    };
    sections.put(own.at, ".symtab", header);
    Ok(offset + bytes.len() as u64)
}

/// The executable's symbols.
struct Own {
    symbols: Vec<Sym>,
    /// How many of them are local.
    local: usize,
    names: Vec<u8>,
    /// The indexes of both sections.
    at: Option<usize>,
    names_at: Option<usize>,
}

impl Own {
    fn read(base: &Base, sections: &Sections) -> Result<Own, Flaw> {
        let at = sections.symbols();
        let Some(table) = at.and_then(|at| sections.header(at)) else {
            // The first symbol is none, and the first string is empty.
            let symbols = vec![Sym::default()];
            return Ok(Own { symbols, local: 1, names: vec![0], at: None, names_at: None });
        };
        let symbols: Vec<Sym> = entries(&base.part().section(table)?);
        let local = table.sh_info as usize;
        if local > symbols.len() {
            return Err(Flaw::Malformed("its symbol table has more local symbols than symbols"));
        }
        let names = base.part().section(names_of(table, &base.sections)?)?;
        Ok(Own { symbols, local, names, at, names_at: Some(table.sh_link as usize) })
    }
}

/// The section of the libraries. It is empty: gdb warns of one with bytes in no segment.
fn section() -> SectionHeader {
    SectionHeader {
        sh_type: SHT_PROGBITS,
        sh_flags: SHF_ALLOC.into(),
        sh_addr: FAR,
        sh_addralign: 1,
        ..SectionHeader::default()
    }
}

/// Adds the functions of a library.
fn add(
    output: &Output,
    library: &ManifestEntry,
    section: u16,
    names: &mut Strings<'_>,
    symbols: &mut Vec<Sym>,
) -> Result<(), Error> {
    let part = Part::new(output.file(), library.offset, library.length);
    let functions = match Functions::read(part) {
        Ok(Some(functions)) => functions,
        // A library may run, though a tool has left its section headers wrong: nothing reads them at a start.
        Ok(None) | Err(Flaw::Malformed(_)) => return Ok(()),
        Err(Flaw::Io(error)) => return Err(Error::io(output.path(), "read it")(error)),
    };
    for function in functions.iter() {
        let Some(st_name) = names.place(function.name)? else { break };
        symbols.push(Sym {
            st_name,
            st_info: STB_LOCAL << 4 | function.kind,
            st_other: STV_DEFAULT,
            st_shndx: section,
            st_value: FAR + library.offset + function.offset,
            st_size: function.length,
        });
    }
    Ok(())
}

fn push(symbol: &Sym, bytes: &mut Vec<u8>) {
    bytes.extend(symbol.st_name.to_le_bytes());
    bytes.extend([symbol.st_info, symbol.st_other]);
    bytes.extend(symbol.st_shndx.to_le_bytes());
    bytes.extend(symbol.st_value.to_le_bytes());
    bytes.extend(symbol.st_size.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::elf::Elf;
    use crate::file::trial;
    use std::fs::{self, File};
    use std::path::Path;

    /// The sections, with their names, and the symbols with theirs.
    struct Tables {
        elf: Elf,
        sections: Vec<(String, SectionHeader)>,
        symbols: Vec<(String, Sym)>,
        local: usize,
    }

    impl Tables {
        fn read(path: &Path) -> Tables {
            let file = File::open(path).unwrap();
            let part = Part::new(&file, 0, file.metadata().unwrap().len());
            let elf = Elf::read(part).unwrap();
            let headers = elf.sections(part).unwrap();
            let text = |table: &[u8], at: u32| {
                let bytes = table[at as usize..].split(|byte| *byte == 0).next().unwrap();
                String::from_utf8(bytes.to_vec()).unwrap()
            };
            let names = part.section(&headers[usize::from(elf.header.e_shstrndx)]).unwrap();
            let table = headers.iter().find(|header| header.sh_type == SHT_SYMTAB).unwrap();
            let strings = part.section(&headers[table.sh_link as usize]).unwrap();
            let symbols = entries::<Sym>(&part.section(table).unwrap());
            Tables {
                symbols: symbols.iter().map(|one| (text(&strings, one.st_name), *one)).collect(),
                local: table.sh_info as usize,
                sections: headers.iter().map(|one| (text(&names, one.sh_name), *one)).collect(),
                elf,
            }
        }

        fn symbol(&self, name: &str) -> Sym {
            self.symbols.iter().find(|(known, _)| known == name).unwrap().1
        }
    }

    /// Looks for a name as perf does, and examines the code that has it.
    fn assert_perf_finds_the_local_function(app: &Path) {
        let tables = Tables::read(app);
        let symbol = tables.symbol("hidden");
        let (name, section) = &tables.sections[usize::from(symbol.st_shndx)];
        assert!(name.contains("text") && section.sh_flags & u64::from(SHF_ALLOC) != 0);
        let in_segment = |segment: &&goblin::elf64::program_header::ProgramHeader| {
            (segment.p_vaddr..segment.p_vaddr + segment.p_memsz).contains(&symbol.st_value)
        };
        assert!(!tables.elf.loads().any(|segment| in_segment(&segment)));
        let offset = (symbol.st_value - (section.sh_addr - section.sh_offset)) as usize;
        let code = &fs::read(app).unwrap()[offset..offset + symbol.st_size as usize];
        assert!(code.windows(4).any(|word| word == trial::NUMBER.to_le_bytes()), "{code:x?}");
        let is_local = |(_, symbol): &(String, Sym)| symbol.st_info >> 4 == STB_LOCAL;
        assert!(tables.symbols[..tables.local].iter().all(is_local));
        assert!(!tables.symbols[tables.local..].iter().any(is_local));
    }

    #[test]
    fn functions_of_libraries_are_named_beside_those_of_the_executable() {
        let directory = tempfile::tempdir().unwrap();
        let base = trial::base(directory.path());
        let app = trial::sealed_from(directory.path(), &base, true);
        assert_perf_finds_the_local_function(&app);
        let (before, after) = (Tables::read(&base), Tables::read(&app));
        for (name, symbol) in &before.symbols {
            assert!(after.symbols.contains(&(name.clone(), *symbol)), "{name}");
        }
        for (index, (name, _)) in before.sections.iter().enumerate() {
            assert_eq!(*name, after.sections[index].0);
        }
        assert_eq!(after.sections.len(), before.sections.len() + 1);
    }

    #[test]
    fn a_stripped_executable_gets_a_symbol_table() {
        let directory = tempfile::tempdir().unwrap();
        let base = trial::compiled(directory.path(), "base", trial::SOURCE, &["-s"]).unwrap();
        assert_perf_finds_the_local_function(&trial::sealed_from(directory.path(), &base, true));
    }

    #[test]
    fn an_executable_without_section_headers_gets_some() {
        let directory = tempfile::tempdir().unwrap();
        let base = trial::base(directory.path());
        let mut bytes = fs::read(&base).unwrap();
        // e_shoff; e_shnum and e_shstrndx.
        bytes[40..48].fill(0);
        bytes[60..64].fill(0);
        fs::write(&base, bytes).unwrap();
        assert_perf_finds_the_local_function(&trial::sealed_from(directory.path(), &base, true));
    }

    #[test]
    fn without_symbols_the_executable_keeps_its_tables() {
        let directory = tempfile::tempdir().unwrap();
        let base = trial::base(directory.path());
        let app = trial::sealed_from(directory.path(), &base, false);
        let (before, after) = (Tables::read(&base), Tables::read(&app));
        assert_eq!(before.symbols, after.symbols);
        assert_eq!(before.elf.header, after.elf.header);
    }
}
