//! Functions with more arguments than registers, or with an unknown number: variadic ones.

/// Defines a function that replaces a C function whose arguments are all integers and pointers, however many. It
/// is the target of [`Interposition::with_hidden_context`](crate::replica::thunk::Interposition). It calls
/// `target(arguments, context)`, an `extern "C"` function, with the address of the first argument. The others
/// follow it, as in an array.
macro_rules! gathering {
    ($name:ident => $target:path) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                ".cfi_startproc",
                "endbr64",
                // Between the arguments in registers and those on the stack is the return address.
                "pop rax",
                ".cfi_adjust_cfa_offset -8",
                ".cfi_register rip, rax",
                "push r9",
                "push r8",
                "push rcx",
                "push rdx",
                "push rsi",
                "push rdi",
                ".cfi_adjust_cfa_offset 48",
                "mov rdi, rsp",
                "mov rsi, r10",
                "push rax",
                ".cfi_adjust_cfa_offset 8",
                ".cfi_offset rip, -56",
                "sub rsp, 8",
                ".cfi_adjust_cfa_offset 8",
                "call {target}",
                "add rsp, 8",
                ".cfi_adjust_cfa_offset -8",
                "pop rcx",
                ".cfi_adjust_cfa_offset -8",
                ".cfi_register rip, rcx",
                "add rsp, 48",
                ".cfi_adjust_cfa_offset -48",
                "push rcx",
                ".cfi_adjust_cfa_offset 8",
                ".cfi_offset rip, -8",
                "ret",
                ".cfi_endproc",
                target = sym $target,
            )
        }
    };
}

pub(crate) use gathering;
