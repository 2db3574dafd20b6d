//! Calls from which no exception gets out (see [`crate::sys::guard`]).

use std::arch::naked_asm;

use crate::sys::guard::{Record, personality};

/// DWARF's number of `x19`, which holds the record in the frame of [`call_guarded`], and of `x0`, in which
/// [`landing`] gets the exception (DWARF for the Arm 64-bit Architecture, "DWARF register names").
pub(crate) const RECORD_REGISTER: i32 = 19;
pub(crate) const EXCEPTION_REGISTER: i32 = 0;

/// Calls `function` with `arguments`. The unwinder asks [`personality`] about exceptions that reach this frame.
///
/// # Safety
/// `function` takes up to three integer arguments, and `arguments` are what it expects. `record` is valid for
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
        "bti c",
        "stp x29, x30, [sp, #-32]!",
        ".cfi_adjust_cfa_offset 32",
        ".cfi_rel_offset x29, 0",
        ".cfi_rel_offset x30, 8",
        "str x19, [sp, #16]",
        ".cfi_rel_offset x19, 16",
        "mov x29, sp",
        "mov x19, x2",
        "mov x9, x0",
        "ldr x2, [x1, #16]",
        "ldp x0, x1, [x1]",
        "blr x9",
        "ldr x19, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        ".cfi_adjust_cfa_offset -32",
        ".cfi_restore x29",
        ".cfi_restore x30",
        ".cfi_restore x19",
        "ret",
        ".cfi_endproc",
        personality = sym personality,
    )
}

/// Continues the frame of [`call_guarded`] behind its call, with the exception in `x0`.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn landing() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa_offset 32",
        ".cfi_rel_offset x29, 0",
        ".cfi_rel_offset x30, 8",
        ".cfi_rel_offset x19, 16",
        "bti j",
        "str x0, [x19]",
        "mov x0, xzr",
        "ldr x19, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        ".cfi_adjust_cfa_offset -32",
        ".cfi_restore x29",
        ".cfi_restore x30",
        ".cfi_restore x19",
        "ret",
        ".cfi_endproc",
    )
}
