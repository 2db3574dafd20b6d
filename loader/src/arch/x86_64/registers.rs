//! Saves every register that a call may change, for code that is entered where no register may change.

use std::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};
use std::sync::atomic::{AtomicU64, Ordering};

/// State components that a call may change (Intel SDM volume 1, 13.1): x87, SSE, AVX, opmask, the
/// upper halves of ZMM0-15, ZMM16-31. Not AMX tiles (functions that use them save them), nor
/// protection keys.
pub(super) const COMPONENTS: u32 = 0b1110_0111;

/// How state is saved: bytes to reserve in the low half; [`XSAVEC`] or [`XSAVE`] or
/// neither in the high one.
pub(super) static SAVE: AtomicU64 = AtomicU64::new(0);
const XSAVE: u64 = 1 << 32;
const XSAVEC: u64 = 2 << 32;

/// Fills [`SAVE`].
pub(super) fn prepare_to_save() {
    // Every measurement gives the same result.
    SAVE.store(measure(), Ordering::Release);
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

/// Assembly that saves the state of [`COMPONENTS`] in an area that it makes on the stack, 64-byte
/// aligned (Intel SDM volume 1, 13.4); the area's header is zeroed, as XSAVE writes a part of it
/// only. It changes `rax`, `rcx`, `rdx` and `rbx`, which
/// [`restore_registers`] needs as it is then. The operands are `save` (the symbol [`SAVE`]) and
/// `components` (the constant).
macro_rules! save_registers {
    () => {
        "mov rbx, [rip + {save}]
        mov ecx, ebx
        sub rsp, rcx
        and rsp, -64
        shr rbx, 32
        jz 4f
        xor eax, eax
        mov [rsp + 512], rax
        mov [rsp + 520], rax
        mov [rsp + 528], rax
        mov [rsp + 536], rax
        mov [rsp + 544], rax
        mov [rsp + 552], rax
        mov [rsp + 560], rax
        mov [rsp + 568], rax
        mov eax, {components}
        xor edx, edx
        test bl, 2
        jz 3f
        xsavec64 [rsp]
        jmp 5f
        3:
        xsave64 [rsp]
        jmp 5f
        4:
        fxsave64 [rsp]
        5:
        cld"
    };
}

/// Assembly that loads what [`save_registers`] saved at `rsp`; it changes `rax` and `rdx`.
macro_rules! restore_registers {
    () => {
        "test ebx, ebx
        jz 6f
        mov eax, {components}
        xor edx, edx
        xrstor64 [rsp]
        jmp 7f
        6:
        fxrstor64 [rsp]
        7:"
    };
}

pub(super) use {restore_registers, save_registers};
