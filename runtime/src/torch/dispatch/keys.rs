//! Dispatch keys and key sets, as far as the dispatch table is indexed by them
//! (c10/core/DispatchKey.h, DispatchKeySet.h).
//!
//! A key set has one bit for each backend and, above those, one for each functionality. Some
//! functionalities (dense, sparse ...) exist once for each backend. They have a runtime key and an
//! entry in the table for each pair. The others have one entry.

use super::super::release::Layout;

/// The index into an operator's dispatch table for a call with the key set `set`.
///
/// The same arithmetic as `DispatchKeySet::getDispatchTableIndexForDispatchKeySet`.
pub(super) fn table_index(set: u64, layout: &Layout) -> usize {
    let functionality = 64 - (set >> layout.backends).leading_zeros() as u16;
    let offset = table_offset(functionality, layout);
    if layout.per_backend.contains(&functionality) {
        let backends = set & ((1 << layout.backends) - 1);
        // The highest backend's number, from zero; a set without a backend counts as the first.
        offset + (64 - (backends >> 1).leading_zeros()) as usize
    } else {
        offset
    }
}

/// The first entry of a functionality. Each one before it has one entry, or one for each backend.
fn table_offset(functionality: u16, layout: &Layout) -> usize {
    let wider = layout.per_backend.iter().filter(|key| **key < functionality).count();
    functionality as usize + wider * (layout.backends as usize - 1)
}

/// The key set `set` without its highest functionality: where a call goes that falls through.
pub(super) fn below_highest(set: u64, layout: &Layout) -> u64 {
    let functionality = 64 - (set >> layout.backends).leading_zeros();
    if functionality == 0 { 0 } else { set & !(1 << (layout.backends as u32 + functionality - 1)) }
}

/// The key set of one runtime key; `None` for alias keys, which stand for several.
pub(super) fn key_set(key: u16, layout: &Layout) -> Option<u64> {
    if key == 0 {
        return Some(0);
    }
    if key <= layout.functionality_keys {
        return Some(1 << (layout.backends + key - 1));
    }
    // Runtime keys of a per-backend functionality: a marker, then one key per backend.
    let block = layout.backends + 1;
    let position = key - layout.functionality_keys - 1;
    let functionality = *layout.per_backend.get((position / block) as usize)?;
    let backend = position % block;
    let set = 1_u64 << (layout.backends + functionality - 1);
    Some(if backend == 0 { set } else { set | 1 << (backend - 1) })
}

/// The runtime keys in a key set.
pub(super) fn keys_of(set: u64, layout: &Layout) -> Vec<u16> {
    let mut keys = Vec::new();
    for functionality in 1..layout.functionality_keys {
        if set & 1 << (layout.backends + functionality - 1) == 0 {
            continue;
        }
        match layout.per_backend.iter().position(|key| *key == functionality) {
            None => keys.push(functionality),
            Some(block) => {
                let first = layout.functionality_keys + 1 + block as u16 * (layout.backends + 1);
                keys.extend(
                    (0..layout.backends)
                        .filter(|bit| set & 1 << bit != 0)
                        .map(|bit| first + 1 + bit),
                );
            }
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys of torch 2.11: CPU, Meta, AutogradCPU, Python; indices as its headers compute them.
    #[test]
    fn indices_are_those_of_the_dispatcher() {
        let layout = super::super::super::release::layout("2.11.0").expect("a known release");
        for (key, index) in [(50, 1), (65, 16), (12, 87), (0, 0)] {
            let set = key_set(key, layout).expect("a runtime key");
            assert_eq!(table_index(set, layout), index, "key {key}");
        }
        assert_eq!(table_offset(layout.functionality_keys - 1, layout), layout.runtime_entries - 1);
    }

    #[test]
    fn a_key_set_lists_the_pairs_of_functionality_and_backend() {
        let layout = super::super::super::release::layout("2.11.0").expect("a known release");
        let cpu_and_meta = key_set(50, layout).unwrap() | key_set(65, layout).unwrap();
        assert_eq!(keys_of(cpu_and_meta, layout), [50, 65]);
        assert!(keys_of(below_highest(cpu_and_meta, layout), layout).is_empty());
    }
}
