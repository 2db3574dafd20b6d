//! Calls that are bound when they happen. The code saves every register that can hold an argument
//! (AAPCS64, 6.1), asks Rust for the address, and continues the call.

use std::arch::naked_asm;

use super::instruction::{BTI_C, X16, X17, branch, load_immediate};
use super::thunk::{THUNK_SIZE, put};

/// Writes code that asks the record at `record` where the call goes. The record's first word is the
/// address of an `extern "C-unwind" fn(record) -> target`. The code changes `x16` and `x17` only, which are linkage code's.
pub(crate) fn write_late_thunk(code: &mut [u8; THUNK_SIZE], record: usize) {
    let mut words = vec![BTI_C];
    words.extend(load_immediate(X17, record as u64));
    words.extend(load_immediate(X16, bind as *const () as u64));
    words.push(branch(X16));
    put(code, &words);
}

/// Reached by a call's branch, with the record's address in `x17`.
#[unsafe(naked)]
unsafe extern "C" fn bind() {
    naked_asm!(
        ".cfi_startproc",
        "bti c",
        "stp x29, x30, [sp, #-224]!",
        ".cfi_adjust_cfa_offset 224",
        ".cfi_rel_offset x29, 0",
        ".cfi_rel_offset x30, 8",
        "mov x29, sp",
        "stp x0, x1, [sp, #16]",
        "stp x2, x3, [sp, #32]",
        "stp x4, x5, [sp, #48]",
        "stp x6, x7, [sp, #64]",
        "str x8, [sp, #80]", // where a large result goes
        "stp q0, q1, [sp, #96]",
        "stp q2, q3, [sp, #128]",
        "stp q4, q5, [sp, #160]",
        "stp q6, q7, [sp, #192]",
        "mov x0, x17",
        "ldr x16, [x17]",
        "blr x16",
        "mov x16, x0",
        "ldp q0, q1, [sp, #96]",
        "ldp q2, q3, [sp, #128]",
        "ldp q4, q5, [sp, #160]",
        "ldp q6, q7, [sp, #192]",
        "ldr x8, [sp, #80]",
        "ldp x6, x7, [sp, #64]",
        "ldp x4, x5, [sp, #48]",
        "ldp x2, x3, [sp, #32]",
        "ldp x0, x1, [sp, #16]",
        "ldp x29, x30, [sp], #224",
        ".cfi_adjust_cfa_offset -224",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "br x16",
        ".cfi_endproc",
    )
}
