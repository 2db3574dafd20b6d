//! Symbol versions (gABI as extended by Sun and GNU; "ELF Symbol Versioning" in the LSB).

use super::dynamic::bytes_at;

/// The version of a reference or of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Version<'a> {
    pub name: &'a [u8],
    pub hash: u32,
}

/// The version tables of one object, by version index.
#[derive(Debug, Default)]
pub(crate) struct Versions<'a> {
    /// DT_VERSYM: one 16-bit index a symbol; bit 15 marks a hidden (non-default) definition.
    symbols: Option<&'a [u8]>,
    /// Index -> version; both definitions and needs, as glibc's `l_versions`.
    by_index: Vec<Option<Version<'a>>>,
    /// The needed versions, each with the library that DT_VERNEED names for it, in its order.
    needed: Vec<(&'a [u8], &'a [u8])>,
    /// The names of the versions that the object defines.
    defined: Vec<&'a [u8]>,
}

/// Bit 15 of a DT_VERSYM entry.
const HIDDEN: u16 = 0x8000;
/// VER_FLG_BASE: the definition that names the object itself.
const BASE: u16 = 1;

impl<'a> Versions<'a> {
    /// Reads the tables; `needs` and `definitions` are (bytes, count of records).
    pub(crate) fn parse(
        symbols: Option<&'a [u8]>,
        needs: Option<(&'a [u8], usize)>,
        definitions: Option<(&'a [u8], usize)>,
        strings: &'a [u8],
    ) -> Result<Versions<'a>, String> {
        let mut versions = Versions { symbols, ..Versions::default() };
        if let Some((table, count)) = definitions {
            versions.definitions(table, count, strings).ok_or("its DT_VERDEF is damaged")?;
        }
        if let Some((table, count)) = needs {
            versions.needs(table, count, strings).ok_or("its DT_VERNEED is damaged")?;
        }
        Ok(versions)
    }

    /// `Elf64_Verdef`: version, flags, ndx, cnt (u16 each), hash, aux, next (u32 each);
    /// its first `Elf64_Verdaux` holds the name.
    fn definitions(&mut self, table: &'a [u8], count: usize, strings: &'a [u8]) -> Option<()> {
        let mut at = 0;
        for _ in 0..count {
            let (flags, index) = (half(table, at + 2)?, half(table, at + 4)?);
            let (hash, aux, next) =
                (word(table, at + 8)?, word(table, at + 12)?, word(table, at + 16)?);
            let name = bytes_at(strings, word(table, at.checked_add(aux as usize)?)? as usize)?;
            // The base definition is the object's own name, not a version: glibc gives it hash 0.
            if flags & BASE == 0 {
                self.set(index, Version { name, hash });
                self.defined.push(name);
            }
            if next == 0 {
                break;
            }
            at = at.checked_add(next as usize)?;
        }
        Some(())
    }

    /// `Elf64_Verneed`: version, cnt (u16), file, aux, next (u32); each `Elf64_Vernaux`: hash (u32),
    /// flags, other (u16), name, next (u32).
    fn needs(&mut self, table: &'a [u8], count: usize, strings: &'a [u8]) -> Option<()> {
        let mut at = 0;
        for _ in 0..count {
            let (entries, aux, next) =
                (half(table, at + 2)?, word(table, at + 8)?, word(table, at + 12)?);
            let library = bytes_at(strings, word(table, at + 4)? as usize)?;
            let mut aux_at = at.checked_add(aux as usize)?;
            for _ in 0..entries {
                let (hash, other) = (word(table, aux_at)?, half(table, aux_at + 6)?);
                let name = bytes_at(strings, word(table, aux_at + 8)? as usize)?;
                self.set(other, Version { name, hash });
                self.needed.push((name, library));
                match word(table, aux_at + 12)? {
                    0 => break,
                    step => aux_at = aux_at.checked_add(step as usize)?,
                }
            }
            if next == 0 {
                break;
            }
            at = at.checked_add(next as usize)?;
        }
        Some(())
    }

    /// The versions that the object needs, each with the name of the library that should define it.
    pub(crate) fn needed(&self) -> &[(&'a [u8], &'a [u8])] {
        &self.needed
    }

    /// Whether the object defines versions, but not this one.
    pub(crate) fn lacks(&self, version: &[u8]) -> bool {
        !self.defined.is_empty() && !self.defined.contains(&version)
    }

    /// The names of all versions in the tables.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        self.by_index.iter().flatten().map(|version| version.name)
    }

    fn set(&mut self, index: u16, version: Version<'a>) {
        let index = (index & !HIDDEN) as usize;
        if self.by_index.len() <= index {
            self.by_index.resize(index + 1, None);
        }
        self.by_index[index] = Some(version);
    }

    fn entry(&self, symbol: u32) -> Option<u16> {
        self.symbols.and_then(|table| half(table, symbol as usize * 2))
    }

    fn at(&self, entry: u16) -> Option<Version<'a>> {
        self.by_index.get((entry & !HIDDEN) as usize).copied().flatten()
    }

    /// The version of a reference through symbol `symbol`.
    pub(crate) fn wanted(&self, symbol: u32) -> Option<Version<'a>> {
        self.entry(symbol).and_then(|entry| self.at(entry))
    }

    /// Whether the definition `symbol` of this object answers a reference that asks for `wanted`:
    /// the rule of glibc's `check_match` (elf/dl-lookup.c).
    pub(crate) fn matches(&self, symbol: u32, wanted: Option<Version<'_>>, newest: bool) -> Match {
        let Some(entry) = self.entry(symbol) else {
            // An object without versions answers every reference.
            return Match::Yes;
        };
        match wanted {
            Some(wanted) => {
                let own = self.at(entry);
                // `dlvsym` requires that very version (glibc's `r_found_version.hidden`).
                let unversioned = own.is_none() && entry & HIDDEN == 0 && !newest;
                if own == Some(wanted) || unversioned { Match::Yes } else { Match::No }
            }
            // Index 2 is the oldest version that an object defines: an unversioned reference was
            // linked before others existed. `dlsym` takes the newest, which is the default.
            None if entry & !HIDDEN >= if newest { 2 } else { 3 } => {
                if entry & HIDDEN == 0 {
                    Match::IfOnly
                } else {
                    Match::No
                }
            }
            None => Match::Yes,
        }
    }
}

/// The answer of [`Versions::matches`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Match {
    Yes,
    No,
    /// A versioned default definition for an unversioned reference: accepted when no other
    /// definition of the name in the object is.
    IfOnly,
}

fn half(table: &[u8], at: usize) -> Option<u16> {
    table
        .get(at..at.checked_add(2)?)
        .map(|bytes| u16::from_le_bytes(bytes.try_into().expect("two bytes")))
}

fn word(table: &[u8], at: usize) -> Option<u32> {
    table
        .get(at..at.checked_add(4)?)
        .map(|bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes")))
}
