//! Relocations whose words are known when a plan is made, except for the replica's own address.
//!
//! Nearly all words that a load writes are an address in the image itself (its base and a constant) or
//! are the same in all domains. They are computed once, with the plan, and sorted by place. A further
//! replica writes them page by page as its pages are made, while each page is in the processor's first
//! cache. It reads no record and no symbol.

use std::collections::HashSet;
use std::ops::Range;

use crate::arch::{self, Action};
use crate::bind::binding::Binding;
use crate::image::Image;
use crate::image::relocations::{Rela, relr_addresses};
use crate::replica::words::Words;
use crate::sys::page_size;

/// The relocations of an image, divided by the phase that writes them.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// The words that mapping writes.
    pub words: Words,
    /// Whether relocation writes the words of DT_RELR, before all others.
    pub relative: bool,
    /// Indices of the other records that relocation applies, in the table's order.
    pub others: Vec<u32>,
    /// Those of the others that write module words, which are arguments of `__tls_get_addr`.
    pub modules: Vec<u32>,
    /// The places of those whose offset the linker wrote behind them: it knew, with or without
    /// naming the symbol, that the object's own data is meant (lld names protected symbols).
    pub own_modules: HashSet<u64>,
}

impl Prepared {
    /// Divides the relocations of `image`. `bindings` has those of its symbols, by index.
    pub(crate) fn of(image: &Image, bindings: &[Option<Binding>]) -> Prepared {
        let mut prepared = Prepared::default();
        let Words { biased, fixed } = &mut prepared.words;
        // Most records are of this kind.
        biased.reserve(image.dynamic.rela().count());
        // Where the others write.
        let mut targets = Vec::new();
        let offset_words: HashSet<u64> = all(image, Action::TlsOffset).collect();
        prepared.own_modules = all(image, Action::TlsModule)
            .filter(|at| !offset_words.contains(&at.wrapping_add(8)))
            .collect();
        for (index, rela) in image.dynamic.rela().enumerate() {
            let mut size = arch::action(rela.kind).map_or(0, Action::size);
            if arch::action(rela.kind) == Some(Action::TlsModule) {
                prepared.modules.push(index as u32);
                if !prepared.own_modules.contains(&rela.offset) {
                    size = 8;
                }
            }
            match (place(image, rela.offset), word(image, &rela, bindings)) {
                (Some(place), Some(Word::Biased(constant))) => {
                    biased.push((place, constant));
                    continue;
                }
                (Some(place), Some(Word::Fixed(value))) => fixed.push((place, value)),
                _ => prepared.others.push(index as u32),
            }
            if size > 0 {
                targets.push(target(image, rela.offset, size));
            }
        }
        let relative = || relr_addresses(image.dynamic.relative);
        let in_place = |address| {
            let constant = u32::try_from(image.initial_word(address)).ok()?;
            Some((place(image, address)?, constant))
        };
        match relative().map(in_place).collect::<Option<Vec<_>>>() {
            Some(words) => biased.extend(words),
            None => {
                prepared.relative = true;
                targets.extend(relative().map(|address| target(image, address, 8)));
            }
        }
        // Linkers write few sorted runs, which a stable sort merges.
        biased.sort_by_key(|word| word.0);
        fixed.sort_by_key(|word| word.0);
        targets.sort_unstable_by_key(|target| target.start);
        // Where two records write to one byte, the order of the tables counts. And an image with a
        // record at a forbidden place is refused when that record is to be applied.
        if overlap(biased, &targets) || image.targets().is_err() {
            let others = (0..image.dynamic.rela().count() as u32).collect();
            let words = Words::default();
            return Prepared { others, relative: true, words, ..prepared };
        }
        prepared
    }
}

/// The places that a record writes to.
fn target(image: &Image, address: u64, size: usize) -> Range<u64> {
    let start = address.wrapping_sub(image.first as u64);
    start..start.wrapping_add(size as u64)
}

/// Whether two records write to one byte. Both lists are sorted.
fn overlap(words: &[(u32, u32)], targets: &[Range<u64>]) -> bool {
    const WORD: u64 = size_of::<u64>() as u64;
    let start = |word: &(u32, u32)| u64::from(word.0);
    let meets_word = |target: &Range<u64>| {
        let next = words.partition_point(|word| start(word) < target.start);
        let before = next.checked_sub(1).map(|before| start(&words[before]) + WORD);
        before.is_some_and(|end| end > target.start)
            || words.get(next).is_some_and(|word| start(word) < target.end)
    };
    words.windows(2).any(|pair| start(&pair[1]) < start(&pair[0]) + WORD)
        || targets.windows(2).any(|pair| pair[1].start < pair[0].end)
        || targets.iter().any(meets_word)
}

/// Where the relocations of one kind apply.
fn all(image: &Image, action: Action) -> impl Iterator<Item = u64> {
    let of_kind = move |rela: &Rela| arch::action(rela.kind) == Some(action);
    image.dynamic.rela().filter(of_kind).map(|rela| rela.offset)
}

/// The place of the word at `address`, if it lies in one page.
fn place(image: &Image, address: u64) -> Option<u32> {
    let place = (address as usize).wrapping_sub(image.first);
    if place % page_size() + size_of::<u64>() > page_size() {
        None
    } else {
        u32::try_from(place).ok()
    }
}

enum Word {
    Biased(u32),
    Fixed(u64),
}

/// The word that the relocation writes, if it is known now.
fn word(image: &Image, rela: &Rela, bindings: &[Option<Binding>]) -> Option<Word> {
    let biased = |value: u64| u32::try_from(value).ok().map(Word::Biased);
    let addend = match arch::action(rela.kind)? {
        Action::Relative => return biased(rela.addend as u64),
        Action::Absolute => rela.addend as u64,
        Action::Slot if arch::SLOT_HAS_ADDEND => rela.addend as u64,
        Action::Slot => 0,
        _ => return None,
    };
    if rela.symbol == 0 {
        return Some(Word::Fixed(addend));
    }
    match bindings[rela.symbol as usize]? {
        Binding::Absent => Some(Word::Fixed(addend)),
        Binding::Fixed { address, .. } => Some(Word::Fixed((address as u64).wrapping_add(addend))),
        Binding::Image { image: provider, symbol }
            if provider == image.id && !symbol.is_tls() && !symbol.is_indirect_function() =>
        {
            let value = symbol.value.wrapping_add(addend);
            if symbol.is_absolute() { Some(Word::Fixed(value)) } else { biased(value) }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_that_write_to_one_byte_are_found() {
        let words = [(8, 0), (16, 0), (40, 0)];
        for (targets, expected) in [
            (&[][..], false),
            (&[(0, 8), (24, 40), (48, 64)], false),
            (&[(7, 9)], true),
            (&[(23, 24)], true),
            (&[(36, 41)], true),
            (&[(100, 108), (104, 112)], true),
        ] {
            let ranges: Vec<_> = targets.iter().map(|(start, end)| *start..*end).collect();
            assert_eq!(overlap(&words, &ranges), expected, "{targets:?}");
        }
        assert!(overlap(&[(8, 0), (12, 0)], &[]));
    }
}
