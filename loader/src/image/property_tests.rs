//! Properties of the code that reads untrusted bytes: the parser, both hash tables, the version matcher.
//! The tables are compared with a linear search over the same symbols. The parser must answer for any
//! bytes.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;

use super::dynamic::Dynamic;
use super::header::Layout;
use super::relocations::relr_addresses;
use super::symbols::{Name, SymbolTable, Tables, gnu_hash, sysv_hash};
use super::versions::{Version, Versions};
use crate::sys::lock::Once;

/// A symbol of a table under test: its name and what its version entry says.
#[derive(Clone, Debug)]
struct TestSymbol {
    name: String,
    version: u16,
    hidden: bool,
    defined: bool,
}

/// The tables of one object, as bytes.
struct Bytes {
    entries: Vec<TestSymbol>,
    symbols: Vec<u8>,
    strings: Vec<u8>,
    gnu: Vec<u8>,
    sysv: Vec<u8>,
    version_symbols: Vec<u8>,
    definitions: Vec<u8>,
}

/// Names versions, which begin at index 2: 0 (local) and 1 (global) are not versions.
fn version_name(index: u16) -> String {
    format!("V{index}")
}

const LAST_VERSION: u16 = 5;

impl Bytes {
    /// Lays the entries out as a linker does: symbols in the order of their buckets, behind the
    /// null symbol.
    fn new(mut entries: Vec<TestSymbol>, buckets: u32, bloom_words: u32) -> Bytes {
        entries.sort_by_key(|entry| gnu_hash(entry.name.as_bytes()) % buckets);
        let mut strings = vec![0];
        let mut intern = |text: &str| {
            strings.extend(text.as_bytes());
            strings.push(0);
            (strings.len() - text.len() - 1) as u32
        };
        let mut symbols = vec![0; 24];
        let mut version_symbols = vec![0; 2];
        for entry in &entries {
            symbols.extend(intern(&entry.name).to_le_bytes());
            // STB_GLOBAL, STT_FUNC; default visibility; section 1 or SHN_UNDEF.
            symbols.extend([0x12, 0, u8::from(entry.defined), 0]);
            symbols.extend(0x1000u64.to_le_bytes());
            symbols.extend(8u64.to_le_bytes());
            let word = entry.version | if entry.hidden { 0x8000 } else { 0 };
            version_symbols.extend(word.to_le_bytes());
        }
        let definitions = definitions(&mut intern);
        let gnu = gnu_table(&entries, buckets, bloom_words);
        let sysv = sysv_table(&entries, buckets);
        Bytes { entries, symbols, strings, gnu, sysv, version_symbols, definitions }
    }

    fn tables(&self) -> Tables<'_> {
        Tables { symbols: &self.symbols, strings: &self.strings, ..Tables::default() }
    }

    fn by_gnu(&self) -> SymbolTable<'_> {
        let tables = Tables { gnu_hash: Some(&self.gnu), ..self.tables() };
        SymbolTable::from_tables(tables).unwrap()
    }

    fn by_sysv(&self) -> SymbolTable<'_> {
        let tables = Tables { sysv_hash: Some(&self.sysv), ..self.tables() };
        SymbolTable::from_tables(tables).unwrap()
    }

    /// With its versions, by either hash table.
    fn versioned(&self) -> [SymbolTable<'_>; 2] {
        [(Some(&*self.gnu), None), (None, Some(&*self.sysv))].map(|(gnu_hash, sysv_hash)| {
            let tables = Tables {
                gnu_hash,
                sysv_hash,
                version_symbols: Some(&self.version_symbols),
                version_definitions: Some((&self.definitions, usize::from(LAST_VERSION) - 1)),
                ..self.tables()
            };
            SymbolTable::from_tables(tables).unwrap()
        })
    }
}

/// `Elf64_Verdef` records for the versions 2 to [`LAST_VERSION`], each with one `Elf64_Verdaux`.
fn definitions(mut intern: impl FnMut(&str) -> u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    for index in 2..=LAST_VERSION {
        let name = version_name(index);
        let next = if index == LAST_VERSION { 0u32 } else { 28 };
        for half in [1, 0, index, 1] {
            bytes.extend(half.to_le_bytes());
        }
        for word in [sysv_hash(name.as_bytes()), 20, next, intern(&name), 0] {
            bytes.extend(word.to_le_bytes());
        }
    }
    bytes
}

/// A record whose last word, at `next`, is yet to come; then `gap` unused words, and its own
/// contents.
fn chained(mut record: Vec<u8>, next: usize, gap: usize, own: Vec<u8>) -> Vec<u8> {
    record.resize(next + 4, 0);
    record.resize(record.len() + 4 * gap, 0xee);
    record.extend(own);
    record
}

/// Records one behind the other, `gap` words apart; the word at `next` of each says how far it is to
/// the next one.
fn chain(records: Vec<Vec<u8>>, next: usize, gap: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let count = records.len();
    for (index, mut record) in records.into_iter().enumerate() {
        record.resize(record.len().max(next + 4) + 4 * gap, 0xee);
        let distance = if index + 1 == count { 0 } else { record.len() as u32 };
        record[next..next + 4].copy_from_slice(&distance.to_le_bytes());
        bytes.extend(record);
    }
    bytes
}

fn words(words: impl IntoIterator<Item = u32>) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

fn gnu_table(entries: &[TestSymbol], buckets: u32, bloom_words: u32) -> Vec<u8> {
    const SHIFT: u32 = 6;
    let hashes: Vec<u32> = entries.iter().map(|entry| gnu_hash(entry.name.as_bytes())).collect();
    let mut bloom = vec![0u64; bloom_words as usize];
    for hash in &hashes {
        let word = &mut bloom[(hash / 64 % bloom_words) as usize];
        *word |= 1 << (hash % 64) | 1 << ((hash >> SHIFT) % 64);
    }
    let first = |bucket| hashes.iter().position(|hash| hash % buckets == bucket);
    let heads = (0..buckets).map(|bucket| first(bucket).map_or(0, |index| index as u32 + 1));
    let chains = hashes.iter().enumerate().map(|(index, hash)| {
        let last = hashes.get(index + 1).is_none_or(|next| next % buckets != hash % buckets);
        (hash & !1) | u32::from(last)
    });
    let mut table = words([buckets, 1, bloom_words, SHIFT]);
    table.extend(bloom.into_iter().flat_map(u64::to_le_bytes));
    table.extend(words(heads));
    table.extend(words(chains));
    table
}

fn sysv_table(entries: &[TestSymbol], buckets: u32) -> Vec<u8> {
    let mut heads = vec![0; buckets as usize];
    let mut chains = vec![0; entries.len() + 1];
    for (index, entry) in entries.iter().enumerate().rev() {
        let bucket = (sysv_hash(entry.name.as_bytes()) % buckets) as usize;
        chains[index + 1] = std::mem::replace(&mut heads[bucket], index as u32 + 1);
    }
    words([buckets, chains.len() as u32].into_iter().chain(heads).chain(chains))
}

/// Short names over few letters, so that hashes and buckets collide.
fn name() -> impl Strategy<Value = String> {
    "[abAB]{0,4}|[a-z_0-9]{1,24}"
}

fn plain(name: String, defined: bool) -> TestSymbol {
    TestSymbol { name, version: 1, hidden: false, defined }
}

/// Entries with distinct names.
fn distinct() -> impl Strategy<Value = Vec<TestSymbol>> {
    (btree_set(name(), 0..60), any::<u64>()).prop_map(|(names, undefined)| {
        let defined = |index: usize| undefined >> (index % 64) & 1 == 0;
        names.into_iter().enumerate().map(|(index, name)| plain(name, defined(index))).collect()
    })
}

/// The rule of glibc's `check_match` and `do_lookup_x` (elf/dl-lookup.c), applied to all symbols at
/// once: the index of the one that answers.
fn naive(entries: &[TestSymbol], name: &str, wanted: Option<u16>, newest: bool) -> Option<u32> {
    let candidates: Vec<(u32, &TestSymbol)> =
        (1..).zip(entries).filter(|(_, entry)| entry.defined && entry.name == name).collect();
    let has_version = |entry: &TestSymbol| entry.version >= 2;
    if let Some(wanted) = wanted {
        let answers = |entry: &TestSymbol| {
            // `dlvsym` (the newest, with a version) takes no definition without one.
            if has_version(entry) { entry.version == wanted } else { !entry.hidden && !newest }
        };
        return candidates.iter().find(|(_, entry)| answers(entry)).map(|&(index, _)| index);
    }
    let limit = if newest { 2 } else { 3 };
    let base = candidates.iter().find(|(_, entry)| entry.version < limit);
    let defaults: Vec<_> =
        candidates.iter().filter(|(_, entry)| entry.version >= limit && !entry.hidden).collect();
    match (base, defaults.as_slice()) {
        (Some(&(index, _)), _) => Some(index),
        (None, [(index, _)]) => Some(*index),
        _ => None,
    }
}

/// Failures are kept as tests of their own, not in a file of seeds.
fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn both_hash_tables_find_what_a_linear_search_finds(
        entries in distinct(),
        others in vec(name(), 0..20),
        buckets in 1u32..40,
        bloom in 0u32..4,
    ) {
        let bytes = Bytes::new(entries, buckets, 1 << bloom);
        let (gnu, sysv) = (bytes.by_gnu(), bytes.by_sysv());
        let names: BTreeSet<&str> =
            bytes.entries.iter().map(|entry| &*entry.name).chain(others.iter().map(|n| &**n)).collect();
        for name in names {
            let expected = naive(&bytes.entries, name, None, false);
            for table in [&gnu, &sysv] {
                let found = table.lookup(Name::new(name.as_bytes()), None, false);
                prop_assert_eq!(found.map(|(index, _)| index), expected, "{}", name);
            }
        }
        let count = bytes.entries.len() as u32 + 1;
        prop_assert_eq!(gnu.count(), count);
        prop_assert_eq!(sysv.count(), count);
    }

    #[test]
    fn versions_match_as_glibc_matches_them(
        entries in vec((0usize..3, 1u16..=LAST_VERSION, any::<bool>(), any::<bool>()), 0..12),
        wanted in proptest::option::of(2u16..=LAST_VERSION + 1),
        newest: bool,
    ) {
        let entries = entries
            .into_iter()
            .map(|(name, version, hidden, defined)| TestSymbol {
                name: ["f", "g", "bA"][name].to_owned(),
                version,
                hidden,
                defined,
            })
            .collect();
        let bytes = Bytes::new(entries, 2, 1);
        let tables = bytes.versioned();
        let text = wanted.map(version_name);
        let version = text.as_ref().map(|text| Version {
            name: text.as_bytes(),
            hash: sysv_hash(text.as_bytes()),
        });
        for name in ["f", "g", "bA", "ab"] {
            let expected = naive(&bytes.entries, name, wanted, newest);
            for table in &tables {
                let found = table.lookup(Name::new(name.as_bytes()), version, newest);
                prop_assert_eq!(found.map(|(index, _)| index), expected, "{}", name);
            }
        }
    }

    #[test]
    fn references_want_the_versions_that_their_tables_name(
        files in vec(vec((any::<prop::sample::Index>(), 0usize..3), 1..5), 0..5),
        gap in 0usize..3,
        symbols in vec((0u16..24, any::<bool>()), 1..20),
    ) {
        // The reference: the name of each index. Indices 6 and up belong to requirements only.
        let mut free: Vec<u16> = (6..24).collect();
        let mut names: BTreeMap<u16, String> =
            (2..=LAST_VERSION).map(|index| (index, version_name(index))).collect();
        let mut strings = vec![0];
        let mut intern = |text: &str| {
            strings.extend(text.as_bytes());
            strings.push(0);
            (strings.len() - text.len() - 1) as u32
        };
        let definitions = definitions(&mut intern);
        let mut needs: Vec<Vec<u8>> = Vec::new();
        for file in &files {
            let mut entries: Vec<Vec<u8>> = Vec::new();
            for (choice, word) in file.iter().take(free.len()) {
                let index = free.remove(choice.index(free.len()));
                let name = format!("{}{index}", ["GLIBC_2.", "V", ""][*word]);
                let mut entry = sysv_hash(name.as_bytes()).to_le_bytes().to_vec();
                // A lookup ignores whether it is weak (vna_flags).
                entry.extend((index % 2 * 2).to_le_bytes());
                entry.extend(index.to_le_bytes());
                entry.extend(intern(&name).to_le_bytes());
                entries.push(entry);
                names.insert(index, name);
            }
            let mut record: Vec<u8> = [1, entries.len() as u16].map(u16::to_le_bytes).concat();
            record.extend(words([intern("libneeded.so"), 16 + 4 * gap as u32]));
            needs.push(chained(record, 12, gap, chain(entries, 12, gap)));
        }
        let needs = chain(needs, 12, gap);
        let version_symbols: Vec<u8> = symbols
            .iter()
            .flat_map(|(index, hidden)| (index | u16::from(*hidden) << 15).to_le_bytes())
            .collect();
        let count = files.len();
        let versions = Versions::parse(
            Some(&version_symbols),
            (count > 0).then_some((&*needs, count)),
            Some((&definitions, usize::from(LAST_VERSION) - 1)),
            &strings,
        )
        .unwrap();
        for (symbol, (index, _)) in (0..).zip(&symbols) {
            let found = versions.wanted(symbol);
            let expected = names.get(index).map(|name| name.as_bytes());
            prop_assert_eq!(found.map(|version| version.name), expected);
            prop_assert!(found.is_none_or(|version| version.hash == sysv_hash(version.name)));
        }
        prop_assert_eq!(versions.wanted(symbols.len() as u32), None);
    }

    #[test]
    fn damaged_hash_and_version_tables_are_answered(
        entries in distinct(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
    ) {
        let mut bytes = Bytes::new(entries, 7, 2);
        for (at, value) in damage {
            for table in [&mut bytes.gnu, &mut bytes.sysv, &mut bytes.definitions] {
                let at = at.index(table.len());
                table[at] = value;
            }
        }
        for (gnu_hash, sysv_hash) in [(Some(&*bytes.gnu), None), (None, Some(&*bytes.sysv))] {
            let tables = Tables {
                gnu_hash,
                sysv_hash,
                version_symbols: Some(&bytes.version_symbols),
                version_definitions: Some((&bytes.definitions, 4)),
                ..bytes.tables()
            };
            if let Ok(table) = SymbolTable::from_tables(tables) {
                table.count();
                for entry in &bytes.entries {
                    table.lookup(Name::new(entry.name.as_bytes()), None, true);
                }
            }
        }
    }

    #[test]
    fn packed_relative_relocations_name_the_words_that_were_packed(
        gaps in vec(1u64..200, 1..200),
    ) {
        let addresses: Vec<u64> = gaps
            .iter()
            .scan(0x1000, |at, gap| {
                *at += gap * 8;
                Some(*at)
            })
            .collect();
        // As linkers pack: an address, then bitmaps as long as they have bits set.
        let mut table = Vec::new();
        let mut rest = addresses.as_slice();
        while let Some((&first, tail)) = rest.split_first() {
            table.extend(first.to_le_bytes());
            rest = tail;
            let mut base = first + 8;
            loop {
                let inside = rest.iter().take_while(|&&at| at < base + 63 * 8).count();
                if inside == 0 {
                    break;
                }
                let bitmap = rest[..inside].iter().fold(0, |bits, at| bits | 1u64 << ((at - base) / 8));
                table.extend((bitmap << 1 | 1).to_le_bytes());
                rest = &rest[inside..];
                base += 63 * 8;
            }
        }
        prop_assert_eq!(relr_addresses(&table).collect::<Vec<_>>(), addresses);
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in vec(any::<u8>(), 0..600)) {
        let mut image = b"\x7fELF\x02\x01\x01".to_vec();
        image.extend(bytes);
        parse(&image);
    }

    #[test]
    fn a_damaged_library_is_parsed_or_refused(
        damage in vec((any::<prop::sample::Index>(), any::<u8>(), 0usize..3), 1..12),
        length in proptest::option::weighted(0.1, any::<prop::sample::Index>()),
    ) {
        let mut image = library().to_vec();
        let (start, size) = dynamic_section(&image);
        for (at, value, part) in damage {
            let at = match part {
                0 => at.index(64 + 10 * 56),
                1 => start + at.index(size),
                _ => at.index(image.len()),
            };
            image[at] = value;
        }
        if let Some(length) = length {
            image.truncate(length.index(image.len()));
        }
        parse(&image);
    }
}

/// A small library that every system of glibc has.
fn library() -> &'static [u8] {
    static BYTES: Once<Vec<u8>> = Once::new();
    BYTES.get_or_init(|| {
        let path = crate::system::search::find("libdl.so.2", &[]).expect("glibc brings it");
        std::fs::read(path).expect("a library is readable")
    })
}

/// Offset and size of the dynamic section of an undamaged library.
fn dynamic_section(image: &[u8]) -> (usize, usize) {
    let layout = Layout::parse(image).expect("undamaged");
    let (address, size) = layout.dynamic;
    let tail = layout.bytes_at(image, address as u64 + layout.first).expect("in the file");
    (tail.as_ptr() as usize - image.as_ptr() as usize, size)
}

/// Parses everything and reads everything; whatever the bytes, it must come back.
fn parse(image: &[u8]) {
    let Ok(layout) = Layout::parse(image) else { return };
    for segment in &layout.segments {
        assert!(segment.address + segment.memory_size <= layout.span);
        assert!(segment.offset as usize + segment.file_size <= image.len());
    }
    let Ok(dynamic) = Dynamic::parse(image, &layout) else { return };
    let _ = dynamic.refuse_unsupported();
    let Ok(symbols) = SymbolTable::parse(&dynamic) else { return };
    for rela in dynamic.rela() {
        let named = symbols.symbol(rela.symbol).and_then(|symbol| symbols.name(&symbol));
        let version = symbols.versions.wanted(rela.symbol);
        if let Some(name) = named {
            symbols.lookup(Name::new(name), version, false);
        }
    }
    relr_addresses(dynamic.relative).count();
    symbols.nearest(0x1000);
    symbols.lookup(Name::new(b"dlopen"), None, true);
}

#[test]
fn bytes_are_parsed_wherever_they_lie() {
    // Found by Miri, where an allocation of bytes is at any address.
    let shifted = [&[0], library()].concat();
    let layouts = [library(), &shifted[1..]].map(|bytes| Layout::parse(bytes).unwrap());
    assert_eq!(layouts[0].segments, layouts[1].segments);
}

#[test]
fn segments_that_end_before_the_first_begins_are_refused() {
    // Found by `a_damaged_library_is_parsed_or_refused`: the first PT_LOAD far behind the last.
    let mut image = library().to_vec();
    let load = (64..64 + 56 * 16)
        .step_by(56)
        .find(|&at| image[at..at + 4] == 1u32.to_le_bytes())
        .expect("a library has a PT_LOAD");
    image[load + 16 + 5] = 80;
    assert!(Layout::parse(&image).is_err());
}
