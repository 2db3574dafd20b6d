//! Changes to a built library, for files that no linker writes.
//!
//! A change is `FIELD=VALUE` (numbers decimal or `0x`, or a type of relocation by the name of what it does: [`TYPES`]) or
//! `truncate=LENGTH`. Fields:
//! `ehdr.e_type`, `ehdr.e_machine`, `ehdr.class`, `ehdr.e_phoff`, `ehdr.e_phentsize`, ...;
//! `phdr.PT_LOAD.0.p_align` (the N-th of the type); `dynamic.TAG` (a number) for the value and
//! `dynamic.TAG.tag` for the tag itself; `rela.TYPE.0.type`, `.offset`, `.addend`, `.symbol` (the
//! N-th relocation of the type).

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Types of relocations that have different numbers on the machines: on x86-64, on AArch64.
const TYPES: [(&str, [u64; 2]); 4] =
    [("ABSOLUTE", [1, 257]), ("ABSOLUTE32", [10, 258]), ("COPY", [5, 1024]), ("SLOT", [6, 1025])];

/// Applies one change to the file.
pub(super) fn apply(file: &Path, change: &str) -> Result<()> {
    let mut bytes = fs::read(file)?;
    let (field, value) = change.split_once('=').context("a change is FIELD=VALUE")?;
    let value = number(value.trim())?;
    if field == "truncate" {
        bytes.truncate(value as usize);
    } else {
        let (at, size) = place(&bytes, field)?;
        bytes
            .get_mut(at..at + size)
            .context("the field lies beyond the file")?
            .copy_from_slice(&value.to_le_bytes()[..size]);
    }
    // Writes a new file: another process may have mapped the old one's pages.
    fs::remove_file(file)?;
    fs::write(file, bytes)?;
    Ok(())
}

fn number(text: &str) -> Result<u64> {
    let machine = usize::from(cfg!(target_arch = "aarch64"));
    if let Some((_, numbers)) = TYPES.iter().find(|(name, _)| *name == text) {
        return Ok(numbers[machine]);
    }
    Ok(match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16)?,
        None => text.parse()?,
    })
}

/// Offset and size of a field.
fn place(bytes: &[u8], field: &str) -> Result<(usize, usize)> {
    let parts: Vec<&str> = field.split('.').collect();
    match *parts.as_slice() {
        ["ehdr", name] => in_header(name),
        ["phdr", kind, index, name] => in_program_header(bytes, kind, index.parse()?, name),
        ["dynamic", tag] => Ok((dynamic_entry(bytes, number(tag)?)? + 8, 8)),
        ["dynamic", tag, "tag"] => Ok((dynamic_entry(bytes, number(tag)?)?, 8)),
        ["rela", kind, index, name] => relocation(bytes, number(kind)?, index.parse()?, name),
        _ => bail!("no such field: {field}"),
    }
}

fn in_header(name: &str) -> Result<(usize, usize)> {
    Ok(match name {
        "magic" => (0, 1),
        "class" => (4, 1),
        "data" => (5, 1),
        "e_type" => (16, 2),
        "e_machine" => (18, 2),
        "e_phoff" => (32, 8),
        "e_phentsize" => (54, 2),
        "e_phnum" => (56, 2),
        _ => bail!("no such field of the ELF header: {name}"),
    })
}

fn word(bytes: &[u8], at: usize) -> Result<u64> {
    let word = bytes.get(at..at + 8).context("beyond the file")?;
    Ok(u64::from_le_bytes(word.try_into()?))
}

/// The offsets of the program headers with their types.
fn program_headers(bytes: &[u8]) -> Result<Vec<(usize, u32)>> {
    let start = word(bytes, 32)? as usize;
    let count = (word(bytes, 56)? & 0xffff) as usize;
    (0..count).map(|index| start + index * 56).map(|at| Ok((at, word(bytes, at)? as u32))).collect()
}

fn in_program_header(bytes: &[u8], kind: &str, index: usize, name: &str) -> Result<(usize, usize)> {
    let kind = match kind {
        "PT_LOAD" => 1,
        "PT_DYNAMIC" => 2,
        "PT_TLS" => 7,
        "PT_GNU_EH_FRAME" => 0x6474_e550,
        "PT_GNU_STACK" => 0x6474_e551,
        "PT_GNU_RELRO" => 0x6474_e552,
        _ => bail!("no such program header: {kind}"),
    };
    let headers = program_headers(bytes)?;
    let (at, _) =
        headers.iter().filter(|header| header.1 == kind).nth(index).context("no such header")?;
    let (offset, size) = match name {
        "p_type" => (0, 4),
        "p_flags" => (4, 4),
        "p_offset" => (8, 8),
        "p_vaddr" => (16, 8),
        "p_filesz" => (32, 8),
        "p_memsz" => (40, 8),
        "p_align" => (48, 8),
        _ => bail!("no such field of a program header: {name}"),
    };
    Ok((at + offset, size))
}

/// The file offset of the byte that is loaded at `address`.
fn offset_of(bytes: &[u8], address: u64) -> Result<usize> {
    for (at, kind) in program_headers(bytes)? {
        let (offset, start, size) =
            (word(bytes, at + 8)?, word(bytes, at + 16)?, word(bytes, at + 32)?);
        if kind == 1 && address >= start && address - start < size {
            return Ok((offset + address - start) as usize);
        }
    }
    bail!("{address:#x} is in no segment")
}

fn dynamic_entry(bytes: &[u8], tag: u64) -> Result<usize> {
    let headers = program_headers(bytes)?;
    let (at, _) = headers.iter().find(|header| header.1 == 2).context("no PT_DYNAMIC")?;
    let (start, size) = (word(bytes, at + 8)? as usize, word(bytes, at + 32)? as usize);
    (start..start + size)
        .step_by(16)
        .find(|&entry| word(bytes, entry).is_ok_and(|found| found == tag))
        .with_context(|| format!("no entry {tag} in the dynamic section"))
}

fn relocation(bytes: &[u8], kind: u64, index: usize, name: &str) -> Result<(usize, usize)> {
    let mut entries = Vec::new();
    for (table, size) in [(7, 8), (23, 2)] {
        let (Ok(table), Ok(size)) = (dynamic_entry(bytes, table), dynamic_entry(bytes, size))
        else {
            continue;
        };
        let start = offset_of(bytes, word(bytes, table + 8)?)?;
        let length = word(bytes, size + 8)? as usize;
        entries.extend((start..start + length).step_by(24));
    }
    let at = entries
        .into_iter()
        .filter(|&at| word(bytes, at + 8).is_ok_and(|info| info & 0xffff_ffff == kind))
        .nth(index)
        .with_context(|| format!("no relocation {index} of type {kind}"))?;
    Ok(match name {
        "offset" => (at, 8),
        "type" => (at + 8, 4),
        "symbol" => (at + 12, 4),
        "addend" => (at + 16, 8),
        _ => bail!("no such field of a relocation: {name}"),
    })
}
