//! Thunks: a few instructions that add arguments to a call and pass it on.

use super::instruction::{BTI_C, Register, X16, X30, branch, copy, load_immediate};

/// Bytes of one thunk, a multiple of 16 so that each begins a fetch block.
pub(crate) const THUNK_SIZE: usize = 48;

/// As an argument number: `x17`, which no argument uses. Linkage code may change it, but no such code runs
/// between a thunk and its target.
pub(crate) const STATIC_CHAIN: usize = 17;

/// Writes code that puts `context` into argument register `x<argument>` (or [`STATIC_CHAIN`]), if `caller` the
/// return address into the next one, and branches to `target`.
///
/// It is a tail call with no frame of its own, so unwinders never see it; besides that it changes `x16` only,
/// which the procedure call standard leaves to linkage code.
///
/// # Panics
/// If the arguments leave no register.
pub(crate) fn write_thunk(
    code: &mut [u8; THUNK_SIZE],
    target: usize,
    argument: usize,
    context: usize,
    caller: bool,
) {
    let chained = argument == STATIC_CHAIN && !caller;
    assert!(chained || argument + usize::from(caller) < 8, "no argument register is left");
    let register = Register(argument as u8);
    let mut words = vec![BTI_C];
    words.extend(load_immediate(register, context as u64));
    if caller {
        words.push(copy(Register(argument as u8 + 1), X30));
    }
    words.extend(load_immediate(X16, target as u64));
    words.push(branch(X16));
    put(code, &words);
}

/// Writes instructions from the beginning of `code`.
pub(super) fn put(code: &mut [u8; THUNK_SIZE], words: &[u32]) {
    for (place, word) in code.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thunk_passes_context_and_caller_and_branches() {
        let mut code = [0; THUNK_SIZE];
        write_thunk(&mut code, 0x1122_3344_5566_7788, 2, 0x99, true);
        let words: Vec<u32> =
            code.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        assert_eq!(
            words[..11],
            [
                0xd503_245f, // bti c
                0xd280_1322, // movz x2, #0x99
                0xf2a0_0002, // movk x2, #0, lsl #16
                0xf2c0_0002, // movk x2, #0, lsl #32
                0xf2e0_0002, // movk x2, #0, lsl #48
                0xaa1e_03e3, // mov x3, x30
                0xd28e_f110, // movz x16, #0x7788
                0xf2aa_acd0, // movk x16, #0x5566, lsl #16
                0xf2c6_6890, // movk x16, #0x3344, lsl #32
                0xf2e2_2450, // movk x16, #0x1122, lsl #48
                0xd61f_0200, // br x16
            ]
        );
    }

    #[test]
    fn a_thunk_may_pass_its_context_where_no_argument_is() {
        let mut code = [0; THUNK_SIZE];
        write_thunk(&mut code, 0x1122_3344_5566_7788, STATIC_CHAIN, 0x99, false);
        // movz x17, #0x99
        assert_eq!(code[4..8], 0xd280_1331_u32.to_le_bytes());
    }
}
