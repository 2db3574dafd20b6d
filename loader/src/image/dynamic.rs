//! The dynamic section: the places of the tables, and the image's needs.

use goblin::elf::dynamic::*;

use super::header::Layout;
use super::relocations::{RELA_SIZE, Rela};

/// Entries of PT_DYNAMIC, with their tables as slices of the file.
#[derive(Debug)]
pub(crate) struct Dynamic<'a> {
    pub soname: Option<&'a str>,
    pub needed: Vec<&'a str>,
    /// Objects whose definitions stand before its own (DT_FILTER, DT_AUXILIARY), and whether it
    /// requires them.
    pub filtees: Vec<(&'a str, bool)>,
    pub rpath: Option<&'a str>,
    pub runpath: Option<&'a str>,
    /// DT_RELA, then DT_JMPREL: `Elf64_Rela` records.
    pub relocations: [&'a [u8]; 2],
    /// DT_RELR: packed relative relocations (gABI), 8 bytes each.
    pub relative: &'a [u8],
    /// Address of DT_INIT's function (as in the file), and of DT_FINI's.
    pub init: Option<u64>,
    pub fini: Option<u64>,
    /// Address and number of the function pointers of DT_INIT_ARRAY and DT_FINI_ARRAY.
    pub init_array: (u64, usize),
    pub fini_array: (u64, usize),
    pub symbolic: bool,
    pub bind_now: bool,
    /// DF_1_NODELETE: it stays loaded.
    pub no_delete: bool,
    /// DF_1_NOOPEN: others may need it, but nobody may open it.
    pub no_open: bool,
    /// DF_1_PIE: it is an executable.
    executable: bool,
    /// DF_1_INITFIRST: its constructors run before those of all others of its load.
    pub init_first: bool,
    pub strings: &'a [u8],
    pub symbol_table: &'a [u8],
    pub gnu_hash: Option<&'a [u8]>,
    pub sysv_hash: Option<&'a [u8]>,
    pub version_symbols: Option<&'a [u8]>,
    pub version_needs: Option<(&'a [u8], usize)>,
    pub version_definitions: Option<(&'a [u8], usize)>,
    /// DT_TEXTREL or DF_TEXTREL: relocations may write to segments that are not writable.
    pub text_relocations: bool,
    rel: bool,
    android: bool,
}

/// DF_TEXTREL of DT_FLAGS.
const TEXTREL: u64 = 0x4;
/// DT_RELR and its companions (gABI); absent from goblin's list.
const RELRSZ: u64 = 35;
const RELR: u64 = 36;
const RELRENT: u64 = 37;
/// DT_ANDROID_REL, DT_ANDROID_RELA and DT_ANDROID_RELR: relocations as bionic's linker packs them
/// (llvm/BinaryFormat/DynamicTags.def).
const ANDROID: [u64; 3] = [0x6000_000f, 0x6000_0011, 0x6fff_e000];
/// Sun's DT_AUXILIARY and DT_FILTER (LSB; glibc, elf/dl-deps.c).
const AUXILIARY: u64 = 0x7fff_fffd;
const FILTER: u64 = 0x7fff_ffff;

impl<'a> Dynamic<'a> {
    /// Reads the section. `bytes` is the whole file.
    pub(crate) fn parse(bytes: &'a [u8], layout: &Layout) -> Result<Dynamic<'a>, String> {
        let (address, size) = layout.dynamic;
        let section = layout
            .bytes_at(bytes, address as u64 + layout.first)
            .and_then(|tail| tail.get(..size))
            .ok_or("PT_DYNAMIC is not in the file")?;
        let entries = Entries::parse(section);
        let table = |what: &str, at: Option<u64>, length: u64| -> Result<&'a [u8], String> {
            let Some(at) = at.filter(|_| length > 0) else { return Ok(&[]) };
            layout
                .bytes_at(bytes, at)
                .and_then(|tail| tail.get(..usize::try_from(length).ok()?))
                .ok_or_else(|| format!("{what} ({length} bytes at {at:#x}) is not in the file"))
        };
        // Tables whose length is known only from their content reach to the end of the segment.
        let open_table = |what: &str, at: Option<u64>| match at {
            None => Ok(None),
            Some(at) => layout
                .bytes_at(bytes, at)
                .map(Some)
                .ok_or_else(|| format!("{what} at {at:#x} is not in the file")),
        };
        let strings =
            table("DT_STRTAB", entries.value(DT_STRTAB), entries.value(DT_STRSZ).unwrap_or(0))?;
        if entries.value(DT_RELAENT).is_some_and(|size| size != RELA_SIZE as u64)
            || entries.value(DT_SYMENT).is_some_and(|size| size != 24)
            || entries.value(RELRENT).is_some_and(|size| size != 8)
        {
            return Err("its table entries have another size than the gABI's".into());
        }
        let name = |offset: u64| string_at(strings, offset as usize);
        let names = |tag| entries.values(tag).map(name).collect::<Result<Vec<_>, _>>();
        let of_kind = |tag, required| {
            names(tag).map(|list| list.into_iter().map(move |name| (name, required)))
        };
        let filtees = of_kind(AUXILIARY, false)?.chain(of_kind(FILTER, true)?).collect();
        let last_name = |tag| entries.value(tag).map(name).transpose();
        let relocations = [
            table("DT_RELA", entries.value(DT_RELA), entries.value(DT_RELASZ).unwrap_or(0))?,
            table("DT_JMPREL", entries.value(DT_JMPREL), entries.value(DT_PLTRELSZ).unwrap_or(0))?,
        ];
        let relocations = without_overlap(relocations)?;
        let flags = entries.value(DT_FLAGS).unwrap_or(0);
        let flags_1 = entries.value(DT_FLAGS_1).unwrap_or(0);
        let array = |at, size| {
            (entries.value(at).unwrap_or(0), (entries.value(size).unwrap_or(0) / 8) as usize)
        };
        let counted = |what: &str, at: u64, count: u64| -> Result<_, String> {
            let count = entries.value(count).unwrap_or(0) as usize;
            Ok(open_table(what, entries.value(at))?.map(|table| (table, count)))
        };
        let dynamic = Dynamic {
            soname: last_name(DT_SONAME)?,
            needed: names(DT_NEEDED)?,
            filtees,
            rpath: last_name(DT_RPATH)?,
            runpath: last_name(DT_RUNPATH)?,
            relocations,
            relative: table("DT_RELR", entries.value(RELR), entries.value(RELRSZ).unwrap_or(0))?,
            init: entries.value(DT_INIT).filter(|&at| at != 0),
            fini: entries.value(DT_FINI).filter(|&at| at != 0),
            init_array: array(DT_INIT_ARRAY, DT_INIT_ARRAYSZ),
            fini_array: array(DT_FINI_ARRAY, DT_FINI_ARRAYSZ),
            symbolic: entries.value(DT_SYMBOLIC).is_some() || flags & DF_SYMBOLIC != 0,
            bind_now: entries.value(DT_BIND_NOW).is_some()
                || flags & DF_BIND_NOW != 0
                || flags_1 & DF_1_NOW != 0,
            no_delete: flags_1 & DF_1_NODELETE != 0,
            no_open: flags_1 & DF_1_NOOPEN != 0,
            executable: flags_1 & DF_1_PIE != 0,
            init_first: flags_1 & DF_1_INITFIRST != 0,
            strings,
            symbol_table: open_table("DT_SYMTAB", entries.value(DT_SYMTAB))?.unwrap_or(&[]),
            gnu_hash: open_table("DT_GNU_HASH", entries.value(DT_GNU_HASH))?,
            sysv_hash: open_table("DT_HASH", entries.value(DT_HASH))?,
            version_symbols: open_table("DT_VERSYM", entries.value(DT_VERSYM))?,
            version_needs: counted("DT_VERNEED", DT_VERNEED, DT_VERNEEDNUM)?,
            version_definitions: counted("DT_VERDEF", DT_VERDEF, DT_VERDEFNUM)?,
            text_relocations: entries.value(DT_TEXTREL).is_some() || flags & TEXTREL != 0,
            rel: entries.value(DT_REL).is_some() || entries.value(DT_PLTREL) == Some(DT_REL),
            android: ANDROID.iter().any(|&tag| entries.value(tag).is_some()),
        };
        if relocations.iter().any(|table| table.len() % RELA_SIZE != 0) {
            return Err("a relocation table does not hold a whole number of entries".into());
        }
        for (what, (at, count)) in
            [("INIT_ARRAY", dynamic.init_array), ("FINI_ARRAY", dynamic.fini_array)]
        {
            let relative = at.wrapping_sub(layout.first) as usize;
            let whole = count.checked_mul(8);
            if count > 0
                && !whole
                    .is_some_and(|size| layout.segments.iter().any(|s| s.holds(relative, size)))
            {
                return Err(format!("DT_{what} does not lie in a segment"));
            }
        }
        Ok(dynamic)
    }

    /// Reasons for which a well-formed image is not loaded.
    pub(crate) fn refuse_unsupported(&self) -> Result<(), String> {
        if self.executable {
            return Err("cannot dynamically load position-independent executable: it relies on \
                        being the program; link it with -shared"
                .into());
        }
        if self.rel {
            return Err(
                "it uses DT_REL relocations, which the psABI of 64-bit machines does not; link it with \
                 -z rela"
                    .into()
            );
        }
        if self.android {
            return Err("its relocations are packed for Android's linker (DT_ANDROID_RELA or \
                        DT_ANDROID_RELR), which others do not read; link it with \
                        --pack-dyn-relocs=none or relr"
                .into());
        }
        Ok(())
    }

    /// All RELA relocations, in the order of their tables.
    pub(crate) fn rela(&self) -> impl Iterator<Item = Rela> + use<'a> {
        let [first, second] = self.relocations;
        Rela::all(first).chain(Rela::all(second))
    }

    /// Number `index` of [`Dynamic::rela`].
    pub(crate) fn rela_at(&self, index: usize) -> Option<Rela> {
        let [first, second] = self.relocations;
        let behind = index.checked_sub(first.len() / RELA_SIZE);
        let (table, index) = behind.map_or((first, index), |behind| (second, behind));
        Rela::all(table.get(index * RELA_SIZE..)?).next()
    }
}

/// The entries of the section, up to DT_NULL.
struct Entries(Vec<(u64, u64)>);

impl Entries {
    fn parse(section: &[u8]) -> Entries {
        let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
        Entries(
            section
                .chunks_exact(16)
                .map(|entry| (word(&entry[..8]), word(&entry[8..])))
                .take_while(|&(tag, _)| tag != DT_NULL)
                .collect(),
        )
    }

    fn values(&self, tag: u64) -> impl Iterator<Item = u64> {
        self.0.iter().filter(move |entry| entry.0 == tag).map(|entry| entry.1)
    }

    /// The last entry counts, as glibc's `elf_get_dynamic_info` overwrites earlier ones.
    fn value(&self, tag: u64) -> Option<u64> {
        self.values(tag).last()
    }
}

/// DT_JMPREL may be a part of DT_RELA (old linkers make it the tail): its entries are applied once.
fn without_overlap([rela, jump]: [&[u8]; 2]) -> Result<[&[u8]; 2], String> {
    let (rela_range, jump_range) = (rela.as_ptr_range(), jump.as_ptr_range());
    let overlap = jump_range.start < rela_range.end && rela_range.start < jump_range.end;
    if jump.is_empty() || rela.is_empty() || !overlap {
        return Ok([rela, jump]);
    }
    let inside = jump_range.start >= rela_range.start && jump_range.end <= rela_range.end;
    let before = (jump_range.start as usize).wrapping_sub(rela_range.start as usize);
    if inside && before.is_multiple_of(RELA_SIZE) {
        Ok([rela, &[]])
    } else {
        Err("DT_JMPREL overlaps DT_RELA, but is not a number of its entries".into())
    }
}

/// The NUL-terminated string at `offset` of a string table.
pub(crate) fn string_at(strings: &[u8], offset: usize) -> Result<&str, String> {
    let bytes = bytes_at(strings, offset).ok_or("a name lies outside the string table")?;
    std::str::from_utf8(bytes).map_err(|_| "a name is not UTF-8".to_owned())
}

/// As [`string_at`], for names that may hold any bytes.
pub(crate) fn bytes_at(strings: &[u8], offset: usize) -> Option<&[u8]> {
    let tail = strings.get(offset..)?;
    memchr(tail).map(|end| &tail[..end])
}

fn memchr(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&byte| byte == 0)
}
