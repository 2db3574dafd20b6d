//! TLS descriptors (psABI, "TLS Descriptors").
//!
//! A descriptor is two words: its resolver and an argument. The code that uses it calls the
//! resolver with the descriptor's address in `rax` and gets an offset from the thread pointer in
//! `rax`. All other registers are kept, vector and mask registers too; flags are not. So resolvers
//! cannot be written in Rust.

use std::arch::naked_asm;
use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
use std::sync::atomic::{AtomicU64, Ordering};

use once_cell::sync::Lazy;

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

/// State components that a call may change (Intel SDM volume 1, 13.1): x87, SSE, AVX, opmask, the
/// upper halves of ZMM0-15, ZMM16-31. Not AMX tiles (functions that use them save them), nor
/// protection keys.
pub(super) const COMPONENTS: u32 = 0b1110_0111;

/// How the resolver saves state: bytes to reserve in the low half; [`XSAVEC`] or [`XSAVE`] or
/// neither in the high one.
pub(super) static SAVE: AtomicU64 = AtomicU64::new(0);
const XSAVE: u64 = 1 << 32;
const XSAVEC: u64 = 2 << 32;

static STATE: Lazy<()> = Lazy::new(|| SAVE.store(measure(), Ordering::Release));

/// Fills [`SAVE`].
pub(super) fn prepare_to_save() {
    Lazy::force(&STATE);
}

/// FXSAVE's area: the legacy region alone.
const LEGACY: u64 = 512;

fn measure() -> u64 {
    const OSXSAVE: u32 = 1 << 27;
    if __cpuid(1).ecx & OSXSAVE == 0 {
        return LEGACY;
    }
    // SAFETY: OSXSAVE says that the system has enabled the instruction.
    let enabled = unsafe { xgetbv() } as u32 & COMPONENTS;
    // In the standard format each component has its own place; the compacted one needs no more.
    let header_end = 576;
    let size = (2..32)
        .filter(|component| enabled & (1 << component) != 0)
        .map(|component| {
            let place = __cpuid_count(0xd, component);
            u64::from(place.eax) + u64::from(place.ebx)
        })
        .fold(header_end, u64::max);
    let compacts = __cpuid_count(0xd, 1).eax & 2 != 0;
    size.next_multiple_of(64) | if compacts { XSAVEC } else { XSAVE }
}

/// The extended control register 0: the components that the system has enabled.
#[target_feature(enable = "xsave")]
unsafe fn xgetbv() -> u64 {
    // SAFETY: register 0 exists where XSAVE does.
    unsafe { _xgetbv(0) }
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
        "mov rbx, [rip + {save}]",
        "mov ecx, ebx", // the size: the low half
        "sub rsp, rcx",
        "and rsp, -64",
        "shr rbx, 32",
        "jz 4f",
        // The header of the area must be zero but for what the instruction writes.
        "xor eax, eax",
        "mov [rsp + 512], rax",
        "mov [rsp + 520], rax",
        "mov [rsp + 528], rax",
        "mov [rsp + 536], rax",
        "mov [rsp + 544], rax",
        "mov [rsp + 552], rax",
        "mov [rsp + 560], rax",
        "mov [rsp + 568], rax",
        "mov eax, {components}",
        "xor edx, edx",
        "test bl, 2",
        "jz 3f",
        "xsavec64 [rsp]",
        "jmp 5f",
        "3:",
        "xsave64 [rsp]",
        "jmp 5f",
        "4:",
        "fxsave64 [rsp]",
        "5:",
        "cld",
        "call {address}",
        "mov r12, rax",
        "test ebx, ebx",
        "jz 6f",
        "mov eax, {components}",
        "xor edx, edx",
        "xrstor64 [rsp]",
        "jmp 7f",
        "6:",
        "fxrstor64 [rsp]",
        "7:",
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
