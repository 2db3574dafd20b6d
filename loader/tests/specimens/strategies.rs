//! Objects of any content, for properties.

use proptest::collection::{btree_set, vec};
use proptest::prelude::*;
use proptest::sample::Index;

use super::forge::{DATA, Forge, Symbol};

/// Names that collide in few buckets.
pub const NAMES: [&str; 12] =
    ["a", "b", "ab", "ba", "aB", "bA", "counter", "malloc", "environ", "errno", "no_such", "free"];

/// Relocations of x86-64 that suit most symbols: NONE, 64, GLOB_DAT, JUMP_SLOT, RELATIVE,
/// DTPMOD64, PC64, SIZE32, SIZE64, IRELATIVE, RELATIVE64.
const COMMON: [u32; 11] = [0, 1, 6, 7, 8, 16, 24, 32, 33, 37, 38];

/// Names that the system's libraries define; references, where they are symbols.
const SYSTEM: [&str; 3] = ["malloc", "environ", "free"];

/// Binding and type, section, value, size.
fn symbol() -> impl Strategy<Value = (u8, u16, u64, u64)> {
    // Global, weak and unique; without type, data, functions. Thread-local data has few relocations.
    let info = prop_oneof![
        29 => prop::sample::select(vec![0x10, 0x11, 0x12, 0x20, 0x21, 0x22, 0xa1]),
        1 => any::<u8>(),
    ];
    (info, prop::sample::select(vec![1, 0xfff1]), 0..0x20100u64, 0..0x1000u64)
}

/// An object of any symbols and relocations, whose words lie in the writable segment or near it.
pub fn forge() -> impl Strategy<Value = Forge> {
    let symbols = (btree_set(0..NAMES.len(), 0..NAMES.len()), vec(symbol(), NAMES.len()));
    // One record in a hundred lies anywhere near, one names any symbol, and one has any type.
    let kind = prop_oneof![99 => prop::sample::select(COMMON.to_vec()), 1 => 0..45u32];
    let at = prop_oneof![99 => 0..=0x38u64, 1 => 0..0x120u64, 1 => 0..0x9100u64];
    let symbol_index =
        prop_oneof![99 => any::<Index>().prop_map(Ok), 1 => (0..14u32).prop_map(Err)];
    let rela = vec((at, symbol_index, kind, -0x100..0x20000i64), 0..24);
    let packed_at = prop_oneof![9 => 0..4u64, 1 => 0..0x1200u64];
    let relr = prop_oneof![Just(Vec::new()), vec((packed_at, 0..0x20u8), 1..4).prop_map(packed)];
    // Beyond the end of the file, too.
    let zeroes = prop_oneof![3 => Just(0), 1 => 0..0x9000u64];
    let tls = proptest::option::weighted(0.9, (0..=0x40u64, 0..=0x40u64));
    let jump = proptest::option::weighted(0.2, (any::<Index>(), any::<Index>()));
    let data = (vec(any::<u8>(), 0x40..0x100), zeroes);
    (symbols, rela, relr, tls, jump, any::<bool>(), data).prop_map(
        |((names, kinds), rela, relr, tls, jump, sysv_hash, (data, zeroes))| {
            let symbols =
                names.into_iter().zip(kinds).map(|(name, (info, section, value, size))| Symbol {
                    name: NAMES[name],
                    info,
                    section: if SYSTEM.contains(&NAMES[name]) { 0 } else { section },
                    value,
                    size,
                });
            let symbols: Vec<Symbol> = symbols.collect();
            let any = symbols.len() as u32 + 1;
            let place = |(at, symbol, kind, addend): (u64, Result<Index, u32>, u32, i64)| {
                // RELATIVE and its kin have no symbol; DTPMOD64 without one is the object's own.
                let symbol = match symbol {
                    Ok(_) if [8, 16, 37, 38].contains(&kind) => 0,
                    Ok(symbol) => symbol.index(any as usize) as u32,
                    Err(symbol) => symbol,
                };
                (DATA + at, symbol, kind, addend)
            };
            let rela: Vec<_> = rela.into_iter().map(place).collect();
            let jump = jump.map(|(start, length)| {
                let start = start.index(rela.len() + 1);
                (24 * start as u64, 24 * length.index(rela.len() - start + 1) as u64)
            });
            let tls = tls.map(|(in_file, more)| (in_file, in_file + more));
            Forge { symbols, rela, jump, relr, tls, sysv_hash, data, zeroes, ..Forge::default() }
        },
    )
}

/// An address and a bitmap behind it, some times.
fn packed(groups: Vec<(u64, u8)>) -> Vec<u64> {
    groups.into_iter().flat_map(|(at, bits)| [DATA + at * 8, u64::from(bits) << 1 | 1]).collect()
}
