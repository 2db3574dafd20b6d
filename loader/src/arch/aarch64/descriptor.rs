//! TLS descriptors (ELF for the Arm 64-bit Architecture, "TLS descriptors").
//!
//! The code that uses one calls its resolver with the descriptor's address in `x0` and gets an
//! offset from the thread pointer there. Of the other registers only `x30` and the flags may
//! change; of vector registers the low 128 bits are kept (code that uses longer ones saves them).

use std::arch::naked_asm;

use crate::arch::descriptor_words;
use crate::tls::{Block, TABLE_OFFSET, descriptor_address};

/// The two words of the descriptor of `offset` bytes into `block`.
pub(crate) fn descriptor(block: Block, offset: u64) -> Option<[u64; 2]> {
    let resolvers = [static_resolver as *const () as u64, dynamic_resolver as *const () as u64];
    descriptor_words(block, offset, resolvers)
}

/// The descriptor of an undefined weak symbol: the address is the addend, null for most.
pub(crate) fn undefined_weak_descriptor(addend: u64) -> [u64; 2] {
    [undefined_weak_resolver as *const () as u64, addend]
}

/// The argument is an offset from the thread pointer.
#[unsafe(naked)]
unsafe extern "C" fn static_resolver() {
    naked_asm!("bti c", "ldr x0, [x0, #8]", "ret")
}

/// The argument is an address.
#[unsafe(naked)]
unsafe extern "C" fn undefined_weak_resolver() {
    naked_asm!(
        "bti c",
        "str x1, [sp, #-16]!",
        "mrs x1, tpidr_el0",
        "ldr x0, [x0, #8]",
        "sub x0, x0, x1",
        "ldr x1, [sp], #16",
        "ret",
    )
}

/// The argument is what [`Block::descriptor_argument`] made. A block that the thread has is found
/// in its table; otherwise the registers are saved and Rust is asked.
#[unsafe(naked)]
unsafe extern "C" fn dynamic_resolver() {
    naked_asm!(
        ".cfi_startproc",
        "bti c",
        "stp x1, x2, [sp, #-32]!",
        ".cfi_adjust_cfa_offset 32",
        "str x3, [sp, #16]",
        "ldr x0, [x0, #8]",
        "mrs x1, tpidr_el0",
        "tbz x0, #63, 2f",
        "adrp x2, {table}",
        "ldr x2, [x2, #:lo12:{table}]",
        "cbz x2, 2f",
        "add x2, x1, x2",
        "ubfx x3, x0, #32, #31", // the module
        "ldr x1, [x2, #8]",
        "cmp x3, x1",
        "b.hs 2f",
        "ldr x2, [x2]",
        "ldr x2, [x2, x3, lsl #3]",
        "cbz x2, 2f",
        "mrs x1, tpidr_el0",
        "add x0, x2, w0, uxtw", // the offset: the low half
        "sub x0, x0, x1",
        "ldr x3, [sp, #16]",
        "ldp x1, x2, [sp], #32",
        ".cfi_remember_state",
        ".cfi_adjust_cfa_offset -32",
        "ret",
        ".cfi_restore_state",
        "2:",
        "sub sp, sp, #656",
        ".cfi_adjust_cfa_offset 656",
        "stp x29, x30, [sp]",
        ".cfi_rel_offset x29, 0",
        ".cfi_rel_offset x30, 8",
        "mov x29, sp",
        "stp x4, x5, [sp, #16]",
        "stp x6, x7, [sp, #32]",
        "stp x8, x9, [sp, #48]",
        "stp x10, x11, [sp, #64]",
        "stp x12, x13, [sp, #80]",
        "stp x14, x15, [sp, #96]",
        "stp x16, x17, [sp, #112]",
        "str x18, [sp, #128]",
        "stp q0, q1, [sp, #144]",
        "stp q2, q3, [sp, #176]",
        "stp q4, q5, [sp, #208]",
        "stp q6, q7, [sp, #240]",
        "stp q8, q9, [sp, #272]",
        "stp q10, q11, [sp, #304]",
        "stp q12, q13, [sp, #336]",
        "stp q14, q15, [sp, #368]",
        "stp q16, q17, [sp, #400]",
        "stp q18, q19, [sp, #432]",
        "stp q20, q21, [sp, #464]",
        "stp q22, q23, [sp, #496]",
        "stp q24, q25, [sp, #528]",
        "stp q26, q27, [sp, #560]",
        "stp q28, q29, [sp, #592]",
        "stp q30, q31, [sp, #624]",
        "bl {address}",
        "mrs x1, tpidr_el0",
        "sub x0, x0, x1",
        "ldp q0, q1, [sp, #144]",
        "ldp q2, q3, [sp, #176]",
        "ldp q4, q5, [sp, #208]",
        "ldp q6, q7, [sp, #240]",
        "ldp q8, q9, [sp, #272]",
        "ldp q10, q11, [sp, #304]",
        "ldp q12, q13, [sp, #336]",
        "ldp q14, q15, [sp, #368]",
        "ldp q16, q17, [sp, #400]",
        "ldp q18, q19, [sp, #432]",
        "ldp q20, q21, [sp, #464]",
        "ldp q22, q23, [sp, #496]",
        "ldp q24, q25, [sp, #528]",
        "ldp q26, q27, [sp, #560]",
        "ldp q28, q29, [sp, #592]",
        "ldp q30, q31, [sp, #624]",
        "ldp x4, x5, [sp, #16]",
        "ldp x6, x7, [sp, #32]",
        "ldp x8, x9, [sp, #48]",
        "ldp x10, x11, [sp, #64]",
        "ldp x12, x13, [sp, #80]",
        "ldp x14, x15, [sp, #96]",
        "ldp x16, x17, [sp, #112]",
        "ldr x18, [sp, #128]",
        "ldp x29, x30, [sp]",
        "add sp, sp, #656",
        ".cfi_adjust_cfa_offset -656",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "ldr x3, [sp, #16]",
        "ldp x1, x2, [sp], #32",
        ".cfi_adjust_cfa_offset -32",
        "ret",
        ".cfi_endproc",
        table = sym TABLE_OFFSET,
        address = sym descriptor_address,
    )
}
