//! The function that an address of a file lies in, by the file's symbol tables.
//!
//! The tables are read from the file: `.symtab`, which names static functions too, is mapped nowhere. The names of C++ and
//! Rust are as the compiler has encoded them.

use std::ffi::CStr;

use goblin::elf64::header::{ELFMAG, Header, SIZEOF_EHDR};
use goblin::elf64::section_header::{SHT_DYNSYM, SHT_SYMTAB, SectionHeader};
use goblin::elf64::sym::{STB_LOCAL, STT_FUNC, STT_GNU_IFUNC, Sym, st_bind, st_type};
use plain::Plain;

use crate::sys::quiet_file::QuietFile;

/// A function that an address lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Function<'a> {
    /// Its name, as far as it is UTF-8 and the caller's buffer has room.
    pub name: &'a str,
    /// How far behind its begin the address lies.
    pub offset: usize,
}

/// Sections that a file may have here. Object files with a section for each function have more, and are not mapped.
const MOST_SECTIONS: u16 = 512;

/// Symbols that are read at once.
const AT_ONCE: usize = 512;

const SYMBOL: usize = size_of::<Sym>();

/// The function in which `address` (as in the file, [`CodePlace::offset`](super::CodePlace::offset)) lies. `.dynsym` is asked if the file
/// has no `.symtab`. It needs some 16 KiB of stack, and a handler of signals may ask.
pub fn function_at<'a>(path: &CStr, address: usize, buffer: &'a mut [u8]) -> Option<Function<'a>> {
    let file = QuietFile::open(path)?;
    let header: Header = record(&file, 0)?;
    if header.e_ident[..4] != *ELFMAG || usize::from(header.e_ehsize) != SIZEOF_EHDR {
        return None;
    }
    let section = |index: u32| {
        let place = u64::from(header.e_shentsize).checked_mul(index.into())?;
        record::<SectionHeader>(&file, header.e_shoff.checked_add(place)?)
    };
    let of_kind = |kind: u32| {
        let all = (0..header.e_shnum.min(MOST_SECTIONS)).map_while(|index| section(index.into()));
        all.filter(|one| one.sh_type == kind).find_map(|table| {
            Some((nearest(&file, &table, address as u64)?, section(table.sh_link)?))
        })
    };
    let (symbol, strings) = of_kind(SHT_SYMTAB).or_else(|| of_kind(SHT_DYNSYM))?;
    let count = file.read(strings.sh_offset.checked_add(symbol.st_name.into())?, buffer);
    let text = buffer[..count].split(|byte| *byte == 0).next()?;
    let name = match std::str::from_utf8(text) {
        Ok(name) => name,
        Err(error) => std::str::from_utf8(&text[..error.valid_up_to()]).ok()?,
    };
    Some(Function { name, offset: address - symbol.st_value as usize })
}

/// The function of a symbol table that `address` lies in: the one that begins last.
fn nearest(file: &QuietFile, table: &SectionHeader, address: u64) -> Option<Sym> {
    let mut symbols = [0; AT_ONCE * SYMBOL];
    let (mut offset, mut best) = (0, None::<Sym>);
    while offset < table.sh_size {
        let rest = (table.sh_size - offset).min(symbols.len() as u64) as usize;
        let count = file.read(table.sh_offset.checked_add(offset)?, &mut symbols[..rest]) / SYMBOL;
        for bytes in symbols.chunks_exact(SYMBOL).take(count) {
            let mut symbol = Sym::default();
            // The size is right, and nothing is aligned here.
            let _ = symbol.copy_from_bytes(bytes);
            let is_function = matches!(st_type(symbol.st_info), STT_FUNC | STT_GNU_IFUNC);
            let is_inside = address
                .checked_sub(symbol.st_value)
                .is_some_and(|distance| distance < symbol.st_size && symbol.st_shndx != 0);
            // Of several names of one function, one that others see.
            let rank = |one: Sym| (one.st_value, st_bind(one.st_info) != STB_LOCAL);
            if is_function && is_inside && best.is_none_or(|best| rank(best) < rank(symbol)) {
                best = Some(symbol);
            }
        }
        if count == 0 {
            break;
        }
        offset += (count * SYMBOL) as u64;
    }
    best
}

fn record<T: Plain + Default>(file: &QuietFile, offset: u64) -> Option<T> {
    let mut bytes = [0; 64];
    let room = bytes.get_mut(..size_of::<T>())?;
    if file.read(offset, room) != room.len() {
        return None;
    }
    let mut value = T::default();
    value.copy_from_bytes(room).ok()?;
    Some(value)
}
