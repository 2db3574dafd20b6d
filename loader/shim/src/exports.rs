//! The exported functions. They make no frame of their own, so that their targets see the address
//! that the program called from: by it `dlopen` and `dlsym` know the caller.

use std::arch::naked_asm;

use crate::{ANSWERS, begin};

macro_rules! export {
    ($($name:ident = $index:literal;)*) => { $(
        /// Answered by the function of this name in `ANSWERS`.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        extern "C" fn $name() {
            naked_asm!(
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
        }
    )* };
}

export! {
    dlopen = 0;
    dlsym = 1;
    dlvsym = 2;
    dlclose = 3;
    dlerror = 4;
    dladdr = 5;
    dladdr1 = 6;
    dlinfo = 7;
    dl_iterate_phdr = 8;
    _dl_find_object = 9;
}
