//! x86-64 (System V psABI). Beside the words that all machines have, the frame has
//!
//! ```text
//!   rbp - 16   arguments in registers, down to rbp - 56; the results
//!   rbp - 80   the stack pointer at the call
//! ```

use super::super::contained::HAS_CRASHED;
use super::super::inside::{self, begin, end};
use super::super::{GuardEntry, landed};
use super::personality;
use std::arch::{asm, naked_asm};

/// The distance of the stack pointer at the call from the guard's frame pointer, and of the one that [`landing`] begins with.
pub(super) const AT_CALL: usize = 80;

/// Those that a function preserves.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Registers {
    /// rbx, r12, r13, r14, r15.
    general: [usize; 5],
    /// The control words of SSE and x87.
    sse: u32,
    x87: u16,
}

/// Has an interrupted thread go on at the landing of the frame at `base`, whose notes are at `own`.
///
/// # Safety
///
/// As for [`Kept::land`](super::Kept::land).
pub(super) unsafe fn land(base: usize, own: usize, context: &mut libc::mcontext_t) {
    /// The flags of direction, of single steps and of alignment checks (Intel SDM 1, 3.4.3).
    const FLAGS: i64 = 0x400 | 0x100 | 0x4_0000;
    let registers = &mut context.gregs;
    registers[libc::REG_RIP as usize] = landing as *const () as i64;
    registers[libc::REG_RDI as usize] = own as i64;
    registers[libc::REG_RBP as usize] = base as i64;
    registers[libc::REG_RSP as usize] = (base - AT_CALL) as i64;
    registers[libc::REG_EFL as usize] &= !FLAGS;
}

/// The same for the calling thread.
///
/// # Safety
///
/// As for [`Kept::land_now`](super::Kept::land_now).
pub(super) unsafe fn land_now(base: usize, own: usize) -> ! {
    // SAFETY: by contract; `landing` needs the frame pointer, and the stack pointer below what it uses.
    unsafe {
        asm!(
            "mov rbp, {base}",
            "lea rsp, [rbp - {below}]",
            "jmp {landing}",
            base = in(reg) base,
            in("rdi") own,
            below = const AT_CALL,
            landing = sym landing,
            options(noreturn),
        )
    }
}

/// Calls `entry.target` with the arguments that it is called with, as described above.
///
/// # Safety
///
/// `r10` holds the address of a [`GuardEntry`] whose target takes these arguments: integers and pointers, all in registers.
#[unsafe(naked)]
pub(in super::super) unsafe extern "C-unwind" fn guard() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {personality}", // DW_EH_PE_pcrel | DW_EH_PE_sdata4
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "sub rsp, 80",
        "mov [rbp - 8], r10",
        "mov [rbp - 16], rdi",
        "mov [rbp - 24], rsi",
        "mov [rbp - 32], rdx",
        "mov [rbp - 40], rcx",
        "mov [rbp - 48], r8",
        "mov [rbp - 56], r9",
        "mov rdi, r10",
        "mov rsi, rbp",
        "call {begin}",
        "mov [rbp - 64], rax",
        "cmp rax, 1",
        "jbe 3f",
        "mov [rax], rbx",
        "mov [rax + 8], r12",
        "mov [rax + 16], r13",
        "mov [rax + 24], r14",
        "mov [rax + 32], r15",
        "stmxcsr [rax + 40]",
        "fnstcw [rax + 44]",
        "2:",
        "mov rdi, [rbp - 16]",
        "mov rsi, [rbp - 24]",
        "mov rdx, [rbp - 32]",
        "mov rcx, [rbp - 40]",
        "mov r8, [rbp - 48]",
        "mov r9, [rbp - 56]",
        "mov r11, [rbp - 8]",
        "call [r11]",
        // As `end`, which is called if there is more to do.
        "mov rcx, [rbp - 64]",
        "cmp rcx, 1",
        "je 4f",
        "mov rsi, [rcx + {inside}]",
        "test rsi, rsi",
        "jz 6f",
        "mov rdi, [rcx + {contained}]",
        "cmp byte ptr [rdi + {has_crashed}], 0",
        "jne 6f",
        "mov rdi, [rcx + {outer}]",
        "mov [rsi + {of}], rdi",
        "dec qword ptr [rsi + {depth}]",
        "4:",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_remember_state",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_restore_state",
        "6:",
        "mov [rbp - 16], rax",
        "mov [rbp - 24], rdx",
        "call {end}",
        "test al, al",
        "mov rax, [rbp - 16]",
        "mov rdx, [rbp - 24]",
        "jz 4b",
        "jmp 5f",
        "3:",
        "je 2b",
        "5:",
        "mov r11, [rbp - 8]",
        "mov rax, [r11 + 8]",
        "xor edx, edx",
        "jmp 4b",
        ".cfi_endproc",
        personality = sym personality,
        begin = sym begin,
        end = sym end,
        inside = const inside::INSIDE,
        contained = const inside::CONTAINED,
        outer = const inside::OUTER,
        of = const inside::OF,
        depth = const inside::DEPTH,
        has_crashed = const HAS_CRASHED,
    )
}

/// Continues the frame of a [`guard`] whose call has crashed, with its frame pointer and the address of its [`Kept`](super::Kept) in `rdi`.
#[unsafe(naked)]
unsafe extern "C" fn landing() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa rbp, 16",
        ".cfi_offset rbp, -16",
        "mov rbx, [rdi]",
        "mov r12, [rdi + 8]",
        "mov r13, [rdi + 16]",
        "mov r14, [rdi + 24]",
        "mov r15, [rdi + 32]",
        "cld",
        "fninit",
        "fldcw [rdi + 44]",
        "ldmxcsr [rdi + 40]",
        "call {landed}",
        "call {end}",
        "mov r11, [rbp - 8]",
        "mov rax, [r11 + 8]",
        "xor edx, edx",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
        landed = sym landed,
        end = sym end,
    )
}

/// Calls `entry.target(first, second)` through the guard.
///
/// # Safety
///
/// The target may be called so.
#[unsafe(naked)]
pub(in super::super) unsafe extern "C-unwind" fn call_guarded(
    first: usize,
    second: usize,
    entry: &GuardEntry,
) -> usize {
    naked_asm!(
        ".cfi_startproc",
        "mov r10, rdx",
        "jmp {guard}",
        ".cfi_endproc",
        guard = sym guard,
    )
}
