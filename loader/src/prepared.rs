//! Relocations whose words are known when a plan is made, but for the replica's own address.
//!
//! Nearly all words that a load writes are an address in the image itself (its own base and a
//! constant) or something that is the same in all domains. They are found once, with the plan; a
//! further replica writes them in one pass that looks at no record and no symbol.

use crate::arch::{self, Action};
use crate::image::Image;
use crate::image::relocations::Rela;
use crate::plan::Binding;

/// The relocations of an image, sorted out.
///
/// Invariant: every offset is that of a word that [`crate::image::Targets`] has checked.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    /// Words that are the replica's bias and a constant: their offsets, and the constants.
    pub biased: Vec<(u32, u32)>,
    /// Words that are the same in all replicas.
    pub fixed: Vec<(u32, u64)>,
    /// All others: indices of their records, in the table's order.
    pub others: Vec<u32>,
    /// Those of the others that write module words, which are arguments of `__tls_get_addr`.
    pub modules: Vec<u32>,
}

impl Prepared {
    /// Sorts out the relocations of `image`. `own` says which of the plan's images it is itself.
    pub(crate) fn of(
        image: &Image,
        binding: impl Fn(u32) -> Binding,
        own: impl Fn(u32) -> bool,
    ) -> Prepared {
        let mut prepared = Prepared::default();
        let mut targets = Vec::new();
        let mut modules = Vec::new();
        for (index, rela) in image.dynamic.rela().enumerate() {
            let offset = u32::try_from(rela.offset);
            let size = arch::action(rela.kind).map_or(0, |action| action.size(rela.symbol));
            if arch::action(rela.kind) == Some(Action::TlsModule) {
                modules.push(index as u32);
            }
            if size > 0 {
                targets.push(rela.offset..rela.offset.wrapping_add(size as u64));
            }
            match (offset, word(&rela, &binding, &own)) {
                (Ok(offset), Some(Word::Biased(constant))) => {
                    prepared.biased.push((offset, constant));
                }
                (Ok(offset), Some(Word::Fixed(value))) => prepared.fixed.push((offset, value)),
                _ => prepared.others.push(index as u32),
            }
        }
        targets.sort_unstable_by_key(|target| target.start);
        // Where two records write to one byte, the order of the table counts.
        if targets.windows(2).any(|pair| pair[1].start < pair[0].end) {
            let others = (0..image.dynamic.rela().count() as u32).collect();
            return Prepared { others, modules, ..Prepared::default() };
        }
        prepared.modules = modules;
        prepared.biased.shrink_to_fit();
        prepared.fixed.shrink_to_fit();
        prepared
    }
}

enum Word {
    Biased(u32),
    Fixed(u64),
}

/// What the relocation writes, if it is known now.
fn word(rela: &Rela, binding: impl Fn(u32) -> Binding, own: impl Fn(u32) -> bool) -> Option<Word> {
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
    match binding(rela.symbol) {
        Binding::Absent => Some(Word::Fixed(addend)),
        Binding::Fixed { address, .. } => Some(Word::Fixed((address as u64).wrapping_add(addend))),
        Binding::Image { image, symbol }
            if own(image) && !symbol.is_tls() && !symbol.is_indirect_function() =>
        {
            let value = symbol.value.wrapping_add(addend);
            if symbol.is_absolute() { Some(Word::Fixed(value)) } else { biased(value) }
        }
        _ => None,
    }
}
