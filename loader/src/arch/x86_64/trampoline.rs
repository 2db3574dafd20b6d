//! Trampolines: code on the stack, through which nested functions are called. Code that makes one writes
//! `movabs $function, %r11; movabs $frame, %r10; jmp *%r11` word by word, so the words are its immediates.

/// `rex.WB jmp *%r11; nop` as gcc stores it, at once (gcc/config/i386/i386.cc, ix86_trampoline_init). Code that
/// jumps through `%r11` itself has no use for the prefix's W bit, and compilers leave it out.
const STORED_AT_ONCE: [u8; 4] = [0x49, 0xff, 0xe3, 0x90];
/// The first half of that instruction, which LLVM stores as 16 bits (lib/Target/X86/X86ISelLowering.cpp,
/// LowerINIT_TRAMPOLINE).
const STORED_FIRST: [u8; 2] = [0x49, 0xff];
/// `movw $immediate, ...`
const STORE_16: [u8; 2] = [0x66, 0xc7];
/// The longest and the shortest address between that opcode and its immediate: ModRM, SIB and displacement.
const ADDRESS_BYTES: std::ops::RangeInclusive<usize> = 1..=6;

/// Whether `code` makes trampolines.
pub(crate) fn makes_trampolines(code: &[u8]) -> bool {
    let stored_in_halves = |at: usize| {
        let mut opcodes = ADDRESS_BYTES.filter_map(|address| at.checked_sub(address + 2));
        opcodes.any(|opcode| code[opcode..].starts_with(&STORE_16))
    };
    let candidates = code.windows(2).enumerate().filter(|(_, word)| *word == STORED_FIRST);
    candidates
        .map(|(at, _)| at)
        .any(|at| code[at..].starts_with(&STORED_AT_ONCE) || stored_in_halves(at))
}

#[cfg(test)]
mod tests {
    use super::makes_trampolines;

    /// gcc 12 -O0 and -O2, clang 14 -O0: the stores of the jump.
    #[test]
    fn the_stores_that_compilers_emit_are_known() {
        let gcc = [0xc7, 0x40, 0x14, 0x49, 0xff, 0xe3, 0x90];
        let gcc_stack = [0xc7, 0x44, 0x24, 0x18, 0x49, 0xff, 0xe3, 0x90];
        let clang = [0xc6, 0x47, 0x16, 0xe3, 0x66, 0xc7, 0x47, 0x14, 0x49, 0xff, 0x66, 0xc7];
        let clang_stack = [0x66, 0xc7, 0x44, 0x24, 0x14, 0x49, 0xff];
        for code in [&gcc[..], &gcc_stack, &clang, &clang_stack] {
            assert!(makes_trampolines(code), "{code:x?}");
        }
    }

    #[test]
    fn jumps_and_constants_of_other_code_are_none() {
        // jmp *%r11; add $-1, %r15; movabs $..., %r11; the words alone.
        let codes = [
            &[0x41, 0xff, 0xe3, 0x90][..],
            &[0x49, 0xff, 0xc7],
            &[0x49, 0xbb, 0x49, 0xff, 0, 0, 0, 0, 0, 0],
            &[0x49, 0xff],
            &[],
        ];
        for code in codes {
            assert!(!makes_trampolines(code), "{code:x?}");
        }
    }
}
