//! Calls that are bound when they happen. The code saves every register that can hold an argument
//! (psABI, "Register Usage"), asks Rust for the address, and continues the call.

use std::arch::naked_asm;

use super::THUNK_SIZE;
use super::registers::{COMPONENTS, SAVE, prepare_to_save, restore_registers, save_registers};

/// Writes code that asks the record at `record` where the call goes. The record's first word is the
/// address of an `extern "C-unwind" fn(record) -> target`. The code clobbers `r11` only, which the psABI leaves to linkage code.
pub(crate) fn write_late_thunk(code: &mut [u8; THUNK_SIZE], record: usize) {
    prepare_to_save();
    code[..6].copy_from_slice(&[0xf3, 0x0f, 0x1e, 0xfa, 0x49, 0xbb]); // endbr64; movabs …, %r11
    code[6..14].copy_from_slice(&(record as u64).to_le_bytes());
    code[14..20].copy_from_slice(&[0xff, 0x25, 4, 0, 0, 0]); // jmp *4(%rip)
    code[24..32].copy_from_slice(&(bind as *const () as u64).to_le_bytes());
}

/// Reached by a call's jump, with the record's address in `r11`.
#[unsafe(naked)]
unsafe extern "C" fn bind() {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push rdi",
        "push rsi",
        "push rdx",
        "push rcx",
        "push r8",
        "push r9",
        "push rax", // the number of vector registers that a variadic call uses
        "push r10", // the static chain
        "push rbx",
        "push r12",
        "mov r12, r11",
        save_registers!(),
        "mov rdi, r12",
        "call [r12]",
        "mov r11, rax",
        restore_registers!(),
        "lea rsp, [rbp - 80]",
        "pop r12",
        "pop rbx",
        "pop r10",
        "pop rax",
        "pop r9",
        "pop r8",
        "pop rcx",
        "pop rdx",
        "pop rsi",
        "pop rdi",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        ".cfi_restore rbp",
        "jmp r11",
        ".cfi_endproc",
        save = sym SAVE,
        components = const COMPONENTS,
    )
}
