//! x86-64 (System V psABI).

/// The instructions of an exported function: a jump to the function in `ANSWERS` with this number.
macro_rules! function {
    ($index:literal) => {
        std::arch::naked_asm!(
            "endbr64",
            "mov r11, [rip + {answers} + 8 * {index}]",
            "test r11, r11",
            "jz 2f",
            "jmp r11",
            // The first call comes from a constructor that runs before ours. Arguments are in
            // integer registers only; one more word aligns the stack.
            "2:",
            "push rdi",
            "push rsi",
            "push rdx",
            "push rcx",
            "push r8",
            "call {begin}",
            "pop r8",
            "pop rcx",
            "pop rdx",
            "pop rsi",
            "pop rdi",
            "jmp [rip + {answers} + 8 * {index}]",
            answers = sym ANSWERS,
            index = const $index,
            begin = sym begin,
        )
    };
}

pub(super) use function;
