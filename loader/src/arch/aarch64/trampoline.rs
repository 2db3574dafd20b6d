//! Trampolines: code on the stack, through which nested functions are called. gcc copies a template there, which lies in the code of
//! each file that makes one, and adds the two addresses.

/// `ldr x17, function; ldr x18, frame; br x17` (gcc/config/aarch64/aarch64.cc, aarch64_asm_trampoline_template): the bits that count, and
/// their values. The others say how far behind the instruction the address is. x18 is the static chain, which other code has no use for.
const TEMPLATE: [(u32, u32); 3] =
    [(0xff00_001f, 0x5800_0011), (0xff00_001f, 0x5800_0012), (u32::MAX, 0xd61f_0220)];

/// Whether `code` makes trampolines. Of clang's languages none has nested functions that are called so.
pub(crate) fn makes_trampolines(code: &[u8]) -> bool {
    let (instructions, _) = code.as_chunks::<4>();
    instructions.windows(TEMPLATE.len()).any(|some| {
        let is_like = |(bytes, (mask, value)): (&[u8; 4], &(u32, u32))| {
            u32::from_le_bytes(*bytes) & mask == *value
        };
        some.iter().zip(&TEMPLATE).all(is_like)
    })
}

#[cfg(test)]
mod tests {
    use super::makes_trampolines;

    fn code(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// gcc 16: `bti c; ldr x17, .+16; ldr x18, .+20; br x17`; gcc 8 has no `bti`.
    #[test]
    fn the_template_of_gcc_is_known() {
        let template = [0xd503_245f, 0x5800_00b1, 0x5800_00d2, 0xd61f_0220];
        assert!(makes_trampolines(&code(&template)));
        assert!(makes_trampolines(&code(&template[1..])));
    }

    #[test]
    fn branches_and_constants_of_other_code_are_none() {
        // Entries of a procedure linkage table: adrp x16; ldr x17, [x16, #8]; add x16, x16, #8; br x17.
        let linkage = [0xb000_00f0, 0xf940_0611, 0x9100_2210, 0xd61f_0220];
        // A branch to an address behind it: ldr x17, .+8; br x17.
        let far = [0x5800_0051, 0xd61f_0220];
        for words in [&linkage[..], &far, &[0x5800_0091, 0x5800_00b2], &[]] {
            assert!(!makes_trampolines(&code(words)), "{words:x?}");
        }
    }
}
