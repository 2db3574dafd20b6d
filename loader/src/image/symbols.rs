//! Symbol tables and their hash tables, of images and of system objects alike.

use goblin::elf::sym::{
    STB_GLOBAL, STB_GNU_UNIQUE, STB_LOCAL, STB_WEAK, STT_COMMON, STT_FUNC, STT_GNU_IFUNC,
    STT_NOTYPE, STT_OBJECT, STT_TLS, STV_HIDDEN, STV_INTERNAL, STV_PROTECTED,
};

use super::Dynamic;
use super::dynamic::bytes_at;
use super::versions::{Match, Version, Versions};

/// Size of `Elf64_Sym`, in bytes.
const SYMBOL_SIZE: usize = 24;
const SHN_UNDEF: u16 = 0;
const SHN_ABS: u16 = 0xfff1;

/// One `Elf64_Sym`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    pub value: u64,
    pub size: u64,
}

impl Symbol {
    pub(crate) fn binding(&self) -> u8 {
        self.info >> 4
    }

    pub(crate) fn kind(&self) -> u8 {
        self.info & 0xf
    }

    pub(crate) fn is_local(&self) -> bool {
        self.binding() == STB_LOCAL
    }

    pub(crate) fn is_weak(&self) -> bool {
        self.binding() == STB_WEAK
    }

    pub(crate) fn is_unique(&self) -> bool {
        self.binding() == STB_GNU_UNIQUE
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.kind() == STT_TLS
    }

    pub(crate) fn is_indirect_function(&self) -> bool {
        self.kind() == STT_GNU_IFUNC
    }

    pub(crate) fn is_function(&self) -> bool {
        matches!(self.kind(), STT_FUNC | STT_GNU_IFUNC)
    }

    pub(crate) fn is_absolute(&self) -> bool {
        self.section == SHN_ABS
    }

    pub(crate) fn is_undefined(&self) -> bool {
        self.section == SHN_UNDEF
    }

    /// Whether references of its own object always bind to it.
    pub(crate) fn binds_locally(&self) -> bool {
        self.is_local() || matches!(self.other & 3, STV_PROTECTED | STV_HIDDEN | STV_INTERNAL)
    }

    /// Whether a lookup may end here: the conditions at the head of glibc's `check_match`, and the
    /// bindings that its `do_lookup_x` knows.
    fn is_definition(&self) -> bool {
        !self.is_undefined()
            && matches!(self.binding(), STB_GLOBAL | STB_WEAK | STB_GNU_UNIQUE)
            && (self.value != 0 || self.is_absolute() || self.is_tls())
            && matches!(
                self.kind(),
                STT_NOTYPE | STT_OBJECT | STT_FUNC | STT_COMMON | STT_TLS | STT_GNU_IFUNC
            )
            && !matches!(self.other & 3, STV_HIDDEN | STV_INTERNAL)
    }
}

/// A name with its hashes, computed once a lookup.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name<'a> {
    pub text: &'a [u8],
    gnu: u32,
}

impl<'a> Name<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Name<'a> {
        Name { text, gnu: gnu_hash(text) }
    }
}

/// The hash function of DT_GNU_HASH (Bernstein's, from 5381, times 33).
pub(crate) fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(byte.into()))
}

/// The hash function of DT_HASH and of version names (gABI, figure "Hashing Function").
pub(crate) fn sysv_hash(name: &[u8]) -> u32 {
    name.iter().fold(0u32, |hash, &byte| {
        let hash = (hash << 4).wrapping_add(byte.into());
        let high = hash & 0xf000_0000;
        (hash ^ (high >> 24)) & !high
    })
}

/// The dynamic symbols of one object.
#[derive(Debug)]
pub(crate) struct SymbolTable<'a> {
    symbols: &'a [u8],
    strings: &'a [u8],
    hash: Hash<'a>,
    pub versions: Versions<'a>,
}

#[derive(Debug)]
enum Hash<'a> {
    Gnu { bloom: &'a [u8], shift: u32, buckets: &'a [u8], chains: &'a [u8], first: u32 },
    SysV { buckets: &'a [u8], chains: &'a [u8] },
    Empty,
}

impl<'a> SymbolTable<'a> {
    pub(crate) fn parse(dynamic: &Dynamic<'a>) -> Result<SymbolTable<'a>, String> {
        SymbolTable::from_tables(Tables {
            symbols: dynamic.symbol_table,
            strings: dynamic.strings,
            gnu_hash: dynamic.gnu_hash,
            sysv_hash: dynamic.sysv_hash,
            version_symbols: dynamic.version_symbols,
            version_needs: dynamic.version_needs,
            version_definitions: dynamic.version_definitions,
        })
    }

    /// A table over slices that may reach past the last entry (their count follows from the hash
    /// tables and from the relocations only).
    pub(crate) fn from_tables(tables: Tables<'a>) -> Result<SymbolTable<'a>, String> {
        let hash = match (tables.gnu_hash, tables.sysv_hash) {
            (Some(table), _) => Hash::gnu(table).ok_or("its DT_GNU_HASH is damaged")?,
            (None, Some(table)) => Hash::sysv(table).ok_or("its DT_HASH is damaged")?,
            (None, None) => Hash::Empty,
        };
        let versions = Versions::parse(
            tables.version_symbols,
            tables.version_needs,
            tables.version_definitions,
            tables.strings,
        )?;
        Ok(SymbolTable { symbols: tables.symbols, strings: tables.strings, hash, versions })
    }

    /// The symbol with index `index`, if the table reaches that far.
    pub(crate) fn symbol(&self, index: u32) -> Option<Symbol> {
        let entry = self.entry(index)?;
        let word =
            |at: usize| u64::from_le_bytes(entry[at..at + 8].try_into().expect("eight bytes"));
        let head = word(0);
        Some(Symbol {
            name: head as u32,
            info: (head >> 32) as u8,
            other: (head >> 40) as u8,
            section: (head >> 48) as u16,
            value: word(8),
            size: word(16),
        })
    }

    /// The entry of the table (`Elf64_Sym`) with index `index`, in its bytes.
    pub(crate) fn entry(&self, index: u32) -> Option<&'a [u8]> {
        let start = index as usize * SYMBOL_SIZE;
        self.symbols.get(start..start + SYMBOL_SIZE)
    }

    /// The name of a symbol of this table.
    pub(crate) fn name(&self, symbol: &Symbol) -> Option<&'a [u8]> {
        bytes_at(self.strings, symbol.name as usize)
    }

    /// The definition that answers a reference to `name` with the version `wanted`. `newest` is
    /// `dlsym`'s choice among several versions, otherwise the oldest counts; with a version it is
    /// `dlvsym`'s, which takes no definition without one.
    pub(crate) fn lookup(
        &self,
        name: Name<'_>,
        wanted: Option<Version<'_>>,
        newest: bool,
    ) -> Option<(u32, Symbol)> {
        let mut default = None;
        let mut versioned = 0;
        let mut found = None;
        self.hash.candidates(name, |index| {
            let Some(symbol) = self.symbol(index) else { return false };
            if !symbol.is_definition() || !self.has_name(&symbol, name.text) {
                return false;
            }
            match self.versions.matches(index, wanted, newest) {
                Match::Yes => found = Some((index, symbol)),
                Match::IfOnly => {
                    versioned += 1;
                    default.get_or_insert((index, symbol));
                }
                Match::No => {}
            }
            found.is_some()
        });
        found.or(default.filter(|_| versioned == 1))
    }

    fn has_name(&self, symbol: &Symbol, name: &[u8]) -> bool {
        let start = symbol.name as usize;
        self.strings.get(start..start + name.len()) == Some(name)
            && self.strings.get(start + name.len()) == Some(&0)
    }

    /// One more than the highest index that the hash table reaches, and so of every definition.
    pub(crate) fn count(&self) -> u32 {
        let room = self.symbols.len() / SYMBOL_SIZE;
        self.hash.count().min(u32::try_from(room).unwrap_or(u32::MAX))
    }

    /// The definition that `address` (as in the file) lies in, as `dladdr` names it: the nearest, and
    /// the first of those at one place; one without a size is at its own address only (glibc,
    /// DL_ADDR_SYM_MATCH).
    pub(crate) fn nearest(&self, address: u64) -> Option<(u32, Symbol)> {
        (0..self.count())
            .filter_map(|index| Some((index, self.symbol(index)?)))
            .filter(|(_, symbol)| {
                symbol.is_definition() && !symbol.is_tls() && !symbol.is_absolute()
            })
            .filter(|(_, symbol)| {
                let distance = address.checked_sub(symbol.value);
                distance.is_some_and(|distance| distance == 0 || distance < symbol.size)
            })
            .reduce(|best, other| if other.1.value > best.1.value { other } else { best })
    }
}

/// The raw tables of a [`SymbolTable`].
#[derive(Default)]
pub(crate) struct Tables<'a> {
    pub symbols: &'a [u8],
    pub strings: &'a [u8],
    pub gnu_hash: Option<&'a [u8]>,
    pub sysv_hash: Option<&'a [u8]>,
    pub version_symbols: Option<&'a [u8]>,
    pub version_needs: Option<(&'a [u8], usize)>,
    pub version_definitions: Option<(&'a [u8], usize)>,
}

impl<'a> Hash<'a> {
    fn gnu(table: &'a [u8]) -> Option<Hash<'a>> {
        let header = |index| word(table, index);
        let (bucket_count, first, bloom_words, shift) =
            (header(0)?, header(1)?, header(2)?, header(3)?);
        let bloom_end = 16usize.checked_add((bloom_words as usize).checked_mul(8)?)?;
        let buckets_end = bloom_end.checked_add((bucket_count as usize).checked_mul(4)?)?;
        if bucket_count == 0 {
            return Some(Hash::Empty);
        }
        if !bloom_words.is_power_of_two() {
            return None;
        }
        Some(Hash::Gnu {
            bloom: table.get(16..bloom_end)?,
            shift,
            buckets: table.get(bloom_end..buckets_end)?,
            chains: &table[buckets_end..],
            first,
        })
    }

    fn sysv(table: &'a [u8]) -> Option<Hash<'a>> {
        let (bucket_count, chain_count) = (word(table, 0)? as usize, word(table, 1)? as usize);
        let buckets_end = 8usize.checked_add(bucket_count.checked_mul(4)?)?;
        let chains_end = buckets_end.checked_add(chain_count.checked_mul(4)?)?;
        if bucket_count == 0 {
            return Some(Hash::Empty);
        }
        Some(Hash::SysV {
            buckets: table.get(8..buckets_end)?,
            chains: table.get(buckets_end..chains_end)?,
        })
    }

    /// Calls `visit` with the index of each symbol whose name may be `name`, until it says true.
    fn candidates(&self, name: Name<'_>, mut visit: impl FnMut(u32) -> bool) {
        match *self {
            Hash::Empty => {}
            Hash::Gnu { bloom, shift, buckets, chains, first } => {
                let hash = name.gnu;
                let filter = u64_at(bloom, (hash as usize / 64) % (bloom.len() / 8)).unwrap_or(0);
                let bits = (1u64 << (hash % 64)) | (1u64 << ((hash >> (shift % 32)) % 64));
                if filter & bits != bits {
                    return;
                }
                let bucket = word(buckets, hash as usize % (buckets.len() / 4)).unwrap_or(0);
                let mut index = bucket;
                // Bucket 0 is empty; an index below `first` is in no chain.
                while index >= first && bucket != 0 {
                    let Some(entry) = word(chains, (index - first) as usize) else { return };
                    if (entry | 1) == (hash | 1) && visit(index) {
                        return;
                    }
                    let Some(next) = index.checked_add(1).filter(|_| entry & 1 == 0) else {
                        return;
                    };
                    index = next;
                }
            }
            Hash::SysV { buckets, chains } => {
                let hash = sysv_hash(name.text);
                let mut index = word(buckets, hash as usize % (buckets.len() / 4)).unwrap_or(0);
                // A chain that is longer than the table is a cycle.
                for _ in 0..chains.len() / 4 {
                    if index == 0 || visit(index) {
                        return;
                    }
                    index = word(chains, index as usize).unwrap_or(0);
                }
            }
        }
    }

    fn count(&self) -> u32 {
        match *self {
            Hash::Empty => 0,
            Hash::SysV { chains, .. } => (chains.len() / 4) as u32,
            Hash::Gnu { buckets, chains, first, .. } => {
                let highest = (0..buckets.len() / 4)
                    .filter_map(|index| word(buckets, index))
                    .max()
                    .unwrap_or(0);
                if highest < first {
                    return first;
                }
                let mut index = highest;
                while word(chains, (index - first) as usize).is_some_and(|entry| entry & 1 == 0) {
                    let Some(next) = index.checked_add(1) else { break };
                    index = next;
                }
                index.saturating_add(1)
            }
        }
    }
}

fn word(table: &[u8], index: usize) -> Option<u32> {
    let at = index.checked_mul(4)?;
    table.get(at..at + 4).map(|bytes| u32::from_le_bytes(bytes.try_into().expect("four bytes")))
}

fn u64_at(table: &[u8], index: usize) -> Option<u64> {
    let at = index.checked_mul(8)?;
    table.get(at..at + 8).map(|bytes| u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_functions_agree_with_published_values() {
        // From the description of DT_GNU_HASH by A. Schwab and from the gABI.
        assert_eq!(gnu_hash(b"printf"), 0x156b_2bb8);
        assert_eq!(sysv_hash(b"printf"), 0x0779_05a6);
        assert_eq!(gnu_hash(b""), 5381);
    }
}
