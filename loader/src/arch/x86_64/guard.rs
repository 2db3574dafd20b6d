//! Calls from which no exception gets out (see [`crate::sys::guard`]).

use std::arch::naked_asm;

use crate::sys::guard::{Record, personality};

/// DWARF's number of `rbx`, which holds the record in the frame of [`call_guarded`], and of `rax`, in which
/// [`landing`] gets the exception (psABI, "DWARF Register Number Mapping").
pub(crate) const RECORD_REGISTER: i32 = 3;
pub(crate) const EXCEPTION_REGISTER: i32 = 0;

/// Calls `function` with `arguments`. The unwinder asks [`personality`] about exceptions that reach this frame.
///
/// # Safety
/// `function` takes up to three INTEGER arguments, and `arguments` are what it expects. `record` is valid for
/// writes.
#[unsafe(naked)]
pub(crate) unsafe extern "C-unwind" fn call_guarded(
    function: usize,
    arguments: *const [usize; 3],
    record: *mut Record,
) -> usize {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {personality}", // DW_EH_PE_pcrel | DW_EH_PE_sdata4
        "push rbx",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_offset rbx, -16",
        "mov rbx, rdx",
        "mov rax, rdi",
        "mov rdi, [rsi]",
        "mov rdx, [rsi + 16]",
        "mov rsi, [rsi + 8]",
        "call rax",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore rbx",
        "ret",
        ".cfi_endproc",
        personality = sym personality,
    )
}

/// Continues the frame of [`call_guarded`] behind its call, with the exception in `rax`.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn landing() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbx, -16",
        "mov [rbx], rax",
        "xor eax, eax",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore rbx",
        "ret",
        ".cfi_endproc",
    )
}
