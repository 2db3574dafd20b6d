//! Variadic functions, whose arguments go on to another function as a list.

/// Defines a function that replaces a variadic C function with `named` arguments before the others, all integers and
/// pointers. It is the target of [`Interposition::with_hidden_context`](crate::replica::thunk::Interposition). It calls
/// `target(named, list, context)`, an `extern "C"` function, with the address of the named arguments, as an array of words,
/// and with the others as a `va_list`, which is passed by its address (AAPCS64, "The va_list type", and 6.8.2).
macro_rules! variadic {
    ($name:ident($named:literal) => $target:path) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                ".cfi_startproc",
                "bti c",
                "stp x29, x30, [sp, #-240]!",
                ".cfi_adjust_cfa_offset 240",
                ".cfi_rel_offset x29, 0",
                ".cfi_rel_offset x30, 8",
                "mov x29, sp",
                "stp x0, x1, [sp, #48]",
                "stp x2, x3, [sp, #64]",
                "stp x4, x5, [sp, #80]",
                "stp x6, x7, [sp, #96]",
                "stp q0, q1, [sp, #112]",
                "stp q2, q3, [sp, #144]",
                "stp q4, q5, [sp, #176]",
                "stp q6, q7, [sp, #208]",
                // __stack, __gr_top, __vr_top, __gr_offs, __vr_offs
                "add x9, sp, #240",
                "str x9, [sp, #16]",
                "add x10, sp, #112",
                "str x10, [sp, #24]",
                "str x9, [sp, #32]",
                "mov w9, #{general}",
                "str w9, [sp, #40]",
                "mov w9, #-128",
                "str w9, [sp, #44]",
                "add x0, sp, #48",
                "add x1, sp, #16",
                "mov x2, x17",
                "bl {target}",
                "ldp x29, x30, [sp], #240",
                ".cfi_adjust_cfa_offset -240",
                ".cfi_restore x29",
                ".cfi_restore x30",
                "ret",
                ".cfi_endproc",
                general = const 8 * $named - 64,
                target = sym $target,
            )
        }
    };
}

pub(crate) use variadic;
