//! Variadic functions, whose arguments go on to another function as a list.

/// Defines a function that replaces a variadic C function with `named` arguments before the others, all integers and
/// pointers. It is the target of [`Interposition::with_hidden_context`](crate::replica::thunk::Interposition). It calls
/// `target(named, list, context)`, an `extern "C"` function, with the address of the named arguments, as an array of words,
/// and with the others as a `va_list` (psABI, "Variable Argument Lists").
macro_rules! variadic {
    ($name:ident($named:literal) => $target:path) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                ".cfi_startproc",
                "endbr64",
                // The list has 24 bytes at the stack pointer, and the registers are saved 32 bytes above it.
                "sub rsp, 216",
                ".cfi_adjust_cfa_offset 216",
                "mov [rsp + 32], rdi",
                "mov [rsp + 40], rsi",
                "mov [rsp + 48], rdx",
                "mov [rsp + 56], rcx",
                "mov [rsp + 64], r8",
                "mov [rsp + 72], r9",
                // The caller says whether it passes vectors.
                "test al, al",
                "je 2f",
                "movaps [rsp + 80], xmm0",
                "movaps [rsp + 96], xmm1",
                "movaps [rsp + 112], xmm2",
                "movaps [rsp + 128], xmm3",
                "movaps [rsp + 144], xmm4",
                "movaps [rsp + 160], xmm5",
                "movaps [rsp + 176], xmm6",
                "movaps [rsp + 192], xmm7",
                "2:",
                "mov dword ptr [rsp], {offset}",
                "mov dword ptr [rsp + 4], 48",
                "lea rax, [rsp + 224]",
                "mov [rsp + 8], rax",
                "lea rdi, [rsp + 32]",
                "mov [rsp + 16], rdi",
                "mov rsi, rsp",
                "mov rdx, r10",
                "call {target}",
                "add rsp, 216",
                ".cfi_adjust_cfa_offset -216",
                "ret",
                ".cfi_endproc",
                offset = const 8 * $named,
                target = sym $target,
            )
        }
    };
}

pub(crate) use variadic;
