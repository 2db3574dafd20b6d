//! A shared object's relocations as read by goblin, independently of the loader's own parser.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, bail};
use goblin::elf::Elf;
use goblin::elf::dynamic::{
    DT_FINI, DT_FINI_ARRAY, DT_FINI_ARRAYSZ, DT_INIT, DT_INIT_ARRAY, DT_INIT_ARRAYSZ,
};
use goblin::elf::sym::{STB_GNU_UNIQUE, STB_WEAK};

use super::machine::{Kind, MACHINE, RELATIVE};

/// One place that a relocation writes to.
#[derive(Clone, Debug)]
pub(super) struct Relocated {
    /// Address in the file.
    pub offset: u64,
    /// Relocation type; RELATIVE for DT_RELR.
    pub number: u32,
    /// The kind of that type.
    pub kind: Kind,
    /// The number that is added to the symbol's value.
    pub addend: i64,
    /// The symbol's name; empty without one.
    pub symbol: String,
    /// Whether the object itself defines the symbol as weak or unique.
    pub vague: bool,
    /// Whether the object itself defines the symbol as unique.
    pub unique: bool,
}

/// Whether the file is a shared object for this machine with a dynamic section.
pub(super) fn is_loadable(bytes: &[u8]) -> bool {
    Elf::parse(bytes).is_ok_and(|elf| {
        elf.is_lib && elf.is_64 && elf.header.e_machine == MACHINE && elf.dynamic.is_some()
    })
}

/// All places that the relocations of `bytes` write to.
pub(super) fn places(bytes: &[u8]) -> anyhow::Result<Vec<Relocated>> {
    let elf = Elf::parse(bytes).context("goblin cannot parse it")?;
    let mut places = Vec::new();
    for rela in elf.dynrelas.iter().chain(elf.pltrelocs.iter()) {
        let kind = Kind::of(rela.r_type);
        if kind == Kind::Nothing {
            continue;
        }
        let symbol = elf.dynsyms.get(rela.r_sym).filter(|_| rela.r_sym != 0);
        let name = symbol
            .as_ref()
            .and_then(|symbol| elf.dynstrtab.get_at(symbol.st_name))
            .unwrap_or_default();
        let binding = symbol.filter(|symbol| symbol.st_shndx != 0).map(|symbol| symbol.st_bind());
        places.push(Relocated {
            offset: rela.r_offset,
            number: rela.r_type,
            kind,
            addend: rela.r_addend.unwrap_or(0),
            symbol: name.to_owned(),
            vague: matches!(binding, Some(STB_WEAK | STB_GNU_UNIQUE)),
            unique: binding == Some(STB_GNU_UNIQUE),
        });
    }
    places.extend(packed_relative(&elf, bytes)?.into_iter().map(|offset| Relocated {
        offset,
        number: RELATIVE,
        kind: Kind::Own,
        addend: 0,
        symbol: String::new(),
        vague: false,
        unique: false,
    }));
    Ok(places)
}

/// The unique definitions (STB_GNU_UNIQUE) of `file` and their addresses in it.
pub(super) fn uniques(file: &Path) -> anyhow::Result<HashMap<String, u64>> {
    let bytes = std::fs::read(file)?;
    let elf = Elf::parse(&bytes)?;
    let uniques = elf.dynsyms.iter().filter(|symbol| symbol.st_bind() == STB_GNU_UNIQUE);
    let named = |symbol: goblin::elf::Sym| {
        Some((elf.dynstrtab.get_at(symbol.st_name)?.to_owned(), symbol.st_value))
    };
    Ok(uniques.filter(|symbol| symbol.st_shndx != 0).filter_map(named).collect())
}

/// DT_RELR, decoded as the gABI describes it, one bit at a time.
fn packed_relative(elf: &Elf<'_>, bytes: &[u8]) -> anyhow::Result<Vec<u64>> {
    const RELRSZ: u64 = 35;
    const RELR: u64 = 36;
    let value = |tag| {
        elf.dynamic
            .as_ref()
            .and_then(|dynamic| dynamic.dyns.iter().find(|entry| entry.d_tag == tag))
            .map(|entry| entry.d_val)
    };
    let (Some(address), Some(size)) = (value(RELR), value(RELRSZ)) else { return Ok(Vec::new()) };
    let offset = file_offset(elf, address).context("DT_RELR lies in no segment")?;
    let table = bytes.get(offset..offset + size as usize).context("DT_RELR lies beyond the end")?;
    let mut places = Vec::new();
    let mut at = 0;
    for entry in table
        .chunks_exact(8)
        .map(|entry| u64::from_le_bytes(entry.try_into().expect("eight bytes")))
    {
        if entry & 1 == 0 {
            places.push(entry);
            at = entry + 8;
            continue;
        }
        places.extend((0..63).filter(|bit| entry >> (bit + 1) & 1 == 1).map(|bit| at + bit * 8));
        at += 63 * 8;
    }
    Ok(places)
}

fn file_offset(elf: &Elf<'_>, address: u64) -> Option<usize> {
    elf.program_headers
        .iter()
        .find(|header| {
            header.p_type == goblin::elf::program_header::PT_LOAD
                && address >= header.p_vaddr
                && address < header.p_vaddr + header.p_filesz
        })
        .map(|header| (header.p_offset + address - header.p_vaddr) as usize)
}

/// A copy of the object at `path` beside it. glibc does not see its constructors and destructors: their dynamic tags
/// are replaced by tags that no loader knows.
pub(super) fn without_constructors(path: &Path) -> anyhow::Result<std::path::PathBuf> {
    let mut bytes = std::fs::read(path)?;
    let (offset, count) = {
        let elf = Elf::parse(&bytes)?;
        let header = elf
            .program_headers
            .iter()
            .find(|header| header.p_type == goblin::elf::program_header::PT_DYNAMIC)
            .context("no dynamic section")?;
        (header.p_offset as usize, header.p_filesz as usize / 16)
    };
    /// DT_LOOS + an unused offset: loaders ignore it.
    const IGNORED: u64 = 0x6000_0f00;
    for index in 0..count {
        let at = offset + index * 16;
        let Some(entry) = bytes.get_mut(at..at + 8) else {
            bail!("the dynamic section lies beyond the end")
        };
        let tag = u64::from_le_bytes(entry.try_into().expect("eight bytes"));
        if [DT_INIT, DT_FINI, DT_INIT_ARRAY, DT_INIT_ARRAYSZ, DT_FINI_ARRAY, DT_FINI_ARRAYSZ]
            .contains(&tag)
        {
            entry.copy_from_slice(&IGNORED.to_le_bytes());
        }
    }
    // Two comparisons of the same files may run at once.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let copy = path.with_file_name(format!("{INERT}{}-{name}", std::process::id()));
    std::fs::write(&copy, bytes)?;
    Ok(copy)
}

/// The first part of the name of a copy made by [`inert`]. A process's number and the object's name follow.
const INERT: &str = ".inert-";

/// Whether the file of this name is a copy that [`inert`] has made.
pub(crate) fn is_inert(name: &str) -> bool {
    name.starts_with(INERT)
}

/// A text with the objects' names in the place of those of their copies.
pub(crate) fn with_own_names(text: &str) -> String {
    let mut parts = text.split(INERT);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        text + part
            .trim_start_matches(|letter: char| letter.is_ascii_digit())
            .trim_start_matches('-')
    })
}
