//! Functions with more arguments than registers, or with an unknown number: variadic ones.

/// Defines a function that replaces a C function whose arguments are all integers and pointers, however many. It
/// is the target of [`Interposition::with_hidden_context`](crate::replica::thunk::Interposition). It calls
/// `target(arguments, context)`, an `extern "C"` function, with the address of the first argument. The others
/// follow it, as in an array: those on the stack are behind those that are saved here (AAPCS64, 6.8.2).
macro_rules! gathering {
    ($name:ident => $target:path) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                ".cfi_startproc",
                "bti c",
                "stp x29, x30, [sp, #-80]!",
                ".cfi_adjust_cfa_offset 80",
                ".cfi_rel_offset x29, 0",
                ".cfi_rel_offset x30, 8",
                "mov x29, sp",
                "stp x0, x1, [sp, #16]",
                "stp x2, x3, [sp, #32]",
                "stp x4, x5, [sp, #48]",
                "stp x6, x7, [sp, #64]",
                "add x0, sp, #16",
                "mov x1, x17",
                "bl {target}",
                "ldp x29, x30, [sp], #80",
                ".cfi_adjust_cfa_offset -80",
                ".cfi_restore x29",
                ".cfi_restore x30",
                "ret",
                ".cfi_endproc",
                target = sym $target,
            )
        }
    };
}

pub(crate) use gathering;
