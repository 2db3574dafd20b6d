//! TLS descriptors (psABI, "TLS Descriptors").
//!
//! A descriptor is two words: its resolver and an argument. The code that uses it calls the
//! resolver with the descriptor's address in `rax` and gets an offset from the thread pointer in
//! `rax`. All other registers are kept, vector and mask registers too; flags are not. So resolvers
//! cannot be written in Rust.

use std::arch::naked_asm;

use super::registers::{COMPONENTS, SAVE, prepare_to_save, restore_registers, save_registers};
use crate::arch::descriptor_words;
use crate::tls::{Block, TABLE_OFFSET, descriptor_address};

/// The two words of the descriptor of `offset` bytes into `block`.
pub(crate) fn descriptor(block: Block, offset: u64) -> Option<[u64; 2]> {
    prepare_to_save();
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
    naked_asm!("mov rax, [rax + 8]", "ret")
}

/// The argument is an address.
#[unsafe(naked)]
unsafe extern "C" fn undefined_weak_resolver() {
    naked_asm!("mov rax, [rax + 8]", "sub rax, qword ptr fs:[0]", "ret")
}

/// The argument is what [`Block::descriptor_argument`] made. A block that the thread has is found
/// in its table; otherwise all registers are saved and Rust is asked.
#[unsafe(naked)]
unsafe extern "C" fn dynamic_resolver() {
    naked_asm!(
        ".cfi_startproc",
        "mov rax, [rax + 8]",
        "push rcx",
        ".cfi_adjust_cfa_offset 8",
        "push rdx",
        ".cfi_adjust_cfa_offset 8",
        "test rax, rax",
        "jns 2f",
        "mov rcx, [rip + {table}]",
        "test rcx, rcx",
        "jz 2f",
        "mov rdx, rax",
        "shl rdx, 1",
        "shr rdx, 33",
        "cmp rdx, qword ptr fs:[rcx + 8]",
        "jae 2f",
        "mov rcx, qword ptr fs:[rcx]",
        "mov rcx, [rcx + rdx * 8]",
        "test rcx, rcx",
        "jz 2f",
        "mov eax, eax", // the offset: the low half
        "add rax, rcx",
        "sub rax, qword ptr fs:[0]",
        "pop rdx",
        ".cfi_remember_state",
        ".cfi_adjust_cfa_offset -8",
        "pop rcx",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_restore_state",
        "2:",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_offset rbp, -32",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push rdi",
        "push rsi",
        "push r8",
        "push r9",
        "push r10",
        "push r11",
        "push rbx",
        "push r12",
        "mov rdi, rax",
        save_registers!(),
        "call {address}",
        "mov r12, rax",
        restore_registers!(),
        "mov rax, r12",
        "sub rax, qword ptr fs:[0]",
        "lea rsp, [rbp - 64]",
        "pop r12",
        "pop rbx",
        "pop r11",
        "pop r10",
        "pop r9",
        "pop r8",
        "pop rsi",
        "pop rdi",
        "pop rbp",
        ".cfi_def_cfa rsp, 24",
        ".cfi_restore rbp",
        "pop rdx",
        ".cfi_adjust_cfa_offset -8",
        "pop rcx",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
        table = sym TABLE_OFFSET,
        save = sym SAVE,
        components = const COMPONENTS,
        address = sym descriptor_address,
    )
}
