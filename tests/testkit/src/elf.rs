//! A reader of ELF files that shares no code with the loader's and refuses nothing. It treats what it
//! cannot read as absent. Names and numbers are those of the gABI.

/// One program header.
#[derive(Clone, Copy, Debug)]
pub struct ProgramHeader {
    /// Where it lies in the file.
    pub at: usize,
    /// p_type.
    pub kind: u32,
    /// p_flags.
    pub flags: u32,
    /// p_offset.
    pub offset: u64,
    /// p_vaddr.
    pub address: u64,
    /// p_filesz.
    pub file_size: u64,
    /// p_memsz.
    pub memory_size: u64,
}

/// PT_LOAD.
pub const LOAD: u32 = 1;
/// PT_DYNAMIC.
pub const DYNAMIC: u32 = 2;
/// PF_W.
pub const WRITABLE: u32 = 2;

/// One entry of the dynamic section.
#[derive(Clone, Copy, Debug)]
pub struct DynamicEntry {
    /// Where it lies in the file.
    pub at: usize,
    /// d_tag.
    pub tag: u64,
    /// d_val or d_ptr.
    pub value: u64,
}

/// A file's headers and dynamic section.
#[derive(Debug)]
pub struct Elf<'a> {
    bytes: &'a [u8],
    /// All program headers.
    pub headers: Vec<ProgramHeader>,
    /// The dynamic section up to DT_NULL.
    pub dynamic: Vec<DynamicEntry>,
}

/// Little-endian number of `width` bytes at `at`.
pub fn number(bytes: &[u8], at: usize, width: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(width)?)?;
    Some(field.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

impl<'a> Elf<'a> {
    /// Reads the headers and the dynamic section that are there.
    pub fn read(bytes: &'a [u8]) -> Elf<'a> {
        let mut elf = Elf { bytes, headers: Vec::new(), dynamic: Vec::new() };
        let start = number(bytes, 32, 8).unwrap_or(0) as usize;
        let count = number(bytes, 56, 2).unwrap_or(0) as usize;
        elf.headers =
            (0..count).map_while(|index| header(bytes, start.checked_add(index * 56)?)).collect();
        elf.dynamic = elf.entries();
        elf
    }

    fn entries(&self) -> Vec<DynamicEntry> {
        // The last header of a kind counts.
        let Some(header) = self.headers.iter().rfind(|header| header.kind == DYNAMIC) else {
            return Vec::new();
        };
        let Some(start) = self.offset_of(header.address) else { return Vec::new() };
        (0..header.memory_size as usize / 16)
            .map_while(|index| {
                let at = start + index * 16;
                let (tag, value) = (number(self.bytes, at, 8)?, number(self.bytes, at + 8, 8)?);
                (tag != 0).then_some(DynamicEntry { at, tag, value })
            })
            .collect()
    }

    /// The segments.
    pub fn loads(&self) -> impl Iterator<Item = &ProgramHeader> {
        self.headers.iter().filter(|header| header.kind == LOAD)
    }

    /// The place in the file of the byte that is loaded at `address`, if the file has it.
    pub fn offset_of(&self, address: u64) -> Option<usize> {
        let load = self
            .loads()
            .find(|load| address >= load.address && address - load.address < load.file_size)?;
        let at = usize::try_from(load.offset.checked_add(address - load.address)?).ok()?;
        (at < self.bytes.len()).then_some(at)
    }

    /// The value of the last entry with this tag.
    pub fn value(&self, tag: u64) -> Option<u64> {
        self.dynamic.iter().rfind(|entry| entry.tag == tag).map(|entry| entry.value)
    }

    /// The places in the file of a table's records. These tags give the table's address and its size in bytes.
    pub fn records(&self, table: u64, size: u64, width: usize) -> Vec<usize> {
        let (Some(address), Some(size)) = (self.value(table), self.value(size)) else {
            return Vec::new();
        };
        let Some(start) = self.offset_of(address) else { return Vec::new() };
        let size = (size as usize).min(self.bytes.len().saturating_sub(start));
        (0..size / width).map(|index| start + index * width).collect()
    }
}

fn header(bytes: &[u8], at: usize) -> Option<ProgramHeader> {
    let word = |offset| number(bytes, at.checked_add(offset)?, 8);
    Some(ProgramHeader {
        at,
        kind: number(bytes, at, 4)? as u32,
        flags: number(bytes, at + 4, 4)? as u32,
        offset: word(8)?,
        address: word(16)?,
        file_size: word(32)?,
        memory_size: word(40)?,
    })
}
