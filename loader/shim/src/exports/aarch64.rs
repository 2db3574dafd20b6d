//! AArch64 (AAPCS64).

/// The instructions of an exported function: a branch to the function in `ANSWERS` with this number.
macro_rules! function {
    ($index:literal) => {
        std::arch::naked_asm!(
            "bti c",
            "adrp x16, {answers}",
            "add x16, x16, :lo12:{answers}",
            "ldr x16, [x16, #8 * {index}]",
            "cbz x16, 2f",
            "br x16",
            // The first call comes from a constructor that runs before ours. Arguments are in
            // integer registers only.
            "2:",
            "stp x29, x30, [sp, #-64]!",
            "mov x29, sp",
            "stp x0, x1, [sp, #16]",
            "stp x2, x3, [sp, #32]",
            "str x4, [sp, #48]",
            "bl {begin}",
            "ldr x4, [sp, #48]",
            "ldp x2, x3, [sp, #32]",
            "ldp x0, x1, [sp, #16]",
            "ldp x29, x30, [sp], #64",
            "adrp x16, {answers}",
            "add x16, x16, :lo12:{answers}",
            "ldr x16, [x16, #8 * {index}]",
            "br x16",
            answers = sym ANSWERS,
            index = const $index,
            begin = sym begin,
        )
    };
}

pub(super) use function;
