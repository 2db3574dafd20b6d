//! Forwarders: functions of *any* C++ signature that pass a call on to one interpreter's function.
//!
//! libtorch holds one function pointer, one virtual object or one kernel where every interpreter
//! has its own. A forwarder takes that place. It saves the argument registers of the psABI, asks a
//! resolver where the call belongs, restores the registers and jumps. No frame of the forwarder
//! remains. So results, arguments on the stack and C++ exceptions pass as in a direct call.

/// The argument registers at a forwarder's entry. A resolver may change the integer ones.
#[repr(C)]
pub(super) struct Arguments {
    /// `rdi`, `rsi`, `rdx`, `rcx`, `r8`, `r9`.
    pub(super) integers: [usize; 6],
    /// `xmm0` to `xmm7`. No forwarded function takes wider vectors.
    vectors: [[u64; 2]; 8],
}

/// A forwarder's body. It calls `$resolver` with `$number` and the argument registers, and jumps to
/// the address that the resolver returns. The resolver never unwinds: to fail, it returns the address
/// of a function that throws.
macro_rules! forward {
    ($number:expr, $resolver:path) => {
        std::arch::naked_asm!(
            ".cfi_startproc",
            "push rbp",
            ".cfi_adjust_cfa_offset 8",
            ".cfi_rel_offset rbp, 0",
            "mov rbp, rsp",
            ".cfi_def_cfa_register rbp",
            "sub rsp, 176",
            "mov [rsp], rdi",
            "mov [rsp + 8], rsi",
            "mov [rsp + 16], rdx",
            "mov [rsp + 24], rcx",
            "mov [rsp + 32], r8",
            "mov [rsp + 40], r9",
            "movups [rsp + 48], xmm0",
            "movups [rsp + 64], xmm1",
            "movups [rsp + 80], xmm2",
            "movups [rsp + 96], xmm3",
            "movups [rsp + 112], xmm4",
            "movups [rsp + 128], xmm5",
            "movups [rsp + 144], xmm6",
            "movups [rsp + 160], xmm7",
            "mov edi, {number}",
            "mov rsi, rsp",
            "call {resolver}",
            "mov r11, rax",
            "mov rdi, [rsp]",
            "mov rsi, [rsp + 8]",
            "mov rdx, [rsp + 16]",
            "mov rcx, [rsp + 24]",
            "mov r8, [rsp + 32]",
            "mov r9, [rsp + 40]",
            "movups xmm0, [rsp + 48]",
            "movups xmm1, [rsp + 64]",
            "movups xmm2, [rsp + 80]",
            "movups xmm3, [rsp + 96]",
            "movups xmm4, [rsp + 112]",
            "movups xmm5, [rsp + 128]",
            "movups xmm6, [rsp + 144]",
            "movups xmm7, [rsp + 160]",
            "leave",
            ".cfi_def_cfa rsp, 8",
            "jmp r11",
            ".cfi_endproc",
            number = const $number,
            resolver = sym $resolver,
        )
    };
}

/// The addresses of a forwarder's instances for numbers 0, 1, 2 ...
macro_rules! instances {
    ($forwarder:ident: $($number:literal)*) => {
        [$($forwarder::<$number> as *const std::ffi::c_void),*]
    };
}
pub(super) use {forward, instances};
