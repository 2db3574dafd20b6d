//! AArch64 (AAPCS64). Beside the words that all machines have, the frame has
//!
//! ```text
//!   x29 - 16   arguments in registers, down to x29 - 56, and from x29 - 72 to x29 - 88; the results
//!   x29 - 96   the stack pointer at the call
//! ```

use super::super::contained::HAS_CRASHED;
use super::super::inside::{self, begin, end};
use super::super::{GuardEntry, landed};
use super::personality;
use std::arch::{asm, naked_asm};

/// The distance of the stack pointer at the call from the guard's frame pointer, and of the one that [`landing`] begins with.
pub(super) const AT_CALL: usize = 96;

/// Those that a function preserves (6.1.1 and 6.1.2).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct Registers {
    /// x19 to x28.
    general: [usize; 10],
    /// The low halves of v8 to v15.
    vectors: [u64; 8],
    /// FPCR.
    control: u64,
}

/// HWCAP2_SME (Documentation/arch/arm64/elf_hwcaps.rst of the kernel).
const HAS_SME: u64 = 1 << 23;

/// Has an interrupted thread go on at the landing of the frame at `base`, whose notes are at `own`.
///
/// # Safety
///
/// As for [`Kept::land`](super::Kept::land).
pub(super) unsafe fn land(base: usize, own: usize, context: &mut libc::mcontext_t) {
    /// The type of the last branch (Arm ARM, C5.2.19, BTYPE): the processor faults if an instruction that follows an indirect one is not
    /// a place for branches.
    const FLAGS: u64 = 0b11 << 10;
    // SAFETY: asks for a number.
    let features = unsafe { libc::getauxval(libc::AT_HWCAP2) };
    context.pc = landing as *const () as u64;
    context.regs[0] = own as u64;
    context.regs[1] = features & HAS_SME;
    context.regs[29] = base as u64;
    context.sp = (base - AT_CALL) as u64;
    context.pstate &= !FLAGS;
}

/// The same for the calling thread.
///
/// # Safety
///
/// As for [`Kept::land_now`](super::Kept::land_now).
pub(super) unsafe fn land_now(base: usize, own: usize) -> ! {
    // SAFETY: by contract; `landing` needs the frame pointer, and the stack pointer below what it uses. Code of Rust runs in no streaming
    // mode.
    unsafe {
        asm!(
            "mov x29, {base}",
            "sub sp, x29, #{below}",
            "b {landing}",
            base = in(reg) base,
            in("x0") own,
            in("x1") 0,
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
/// `x17` holds the address of a [`GuardEntry`] whose target takes these arguments: integers and pointers, all in registers.
#[unsafe(naked)]
pub(in super::super) unsafe extern "C-unwind" fn guard() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {personality}", // DW_EH_PE_pcrel | DW_EH_PE_sdata4
        "bti c",
        "stp x29, x30, [sp, #-16]!",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "mov x29, sp",
        ".cfi_def_cfa_register x29",
        "sub sp, sp, #96",
        "stp x0, x17, [x29, #-16]",
        "stp x2, x1, [x29, #-32]",
        "stp x4, x3, [x29, #-48]",
        "stur x5, [x29, #-56]",
        "stp x7, x6, [x29, #-80]",
        "stur x8, [x29, #-88]", // where a large result goes
        "mov x0, x17",
        "mov x1, x29",
        "bl {begin}",
        "stur x0, [x29, #-64]",
        "cmp x0, #1",
        "b.ls 3f",
        "stp x19, x20, [x0]",
        "stp x21, x22, [x0, #16]",
        "stp x23, x24, [x0, #32]",
        "stp x25, x26, [x0, #48]",
        "stp x27, x28, [x0, #64]",
        "stp d8, d9, [x0, #80]",
        "stp d10, d11, [x0, #96]",
        "stp d12, d13, [x0, #112]",
        "stp d14, d15, [x0, #128]",
        "mrs x9, fpcr",
        "str x9, [x0, #144]",
        "2:",
        "ldp x0, x17, [x29, #-16]",
        "ldp x2, x1, [x29, #-32]",
        "ldp x4, x3, [x29, #-48]",
        "ldur x5, [x29, #-56]",
        "ldp x7, x6, [x29, #-80]",
        "ldur x8, [x29, #-88]",
        "ldr x9, [x17]",
        "blr x9",
        // As `end`, which is called if there is more to do.
        "ldur x9, [x29, #-64]",
        "cmp x9, #1",
        "b.eq 4f",
        "ldr x10, [x9, #{inside}]",
        "cbz x10, 6f",
        "ldr x11, [x9, #{contained}]",
        "ldrb w11, [x11, #{has_crashed}]",
        "cbnz w11, 6f",
        "ldr x11, [x9, #{outer}]",
        "str x11, [x10, #{of}]",
        "ldr x11, [x10, #{depth}]",
        "sub x11, x11, #1",
        "str x11, [x10, #{depth}]",
        "4:",
        "mov sp, x29",
        "ldp x29, x30, [sp], #16",
        ".cfi_remember_state",
        ".cfi_def_cfa sp, 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "ret",
        ".cfi_restore_state",
        "6:",
        "stp x1, x0, [x29, #-24]",
        "bl {end}",
        "tst w0, #0xff",
        "ldp x1, x0, [x29, #-24]",
        "b.eq 4b",
        "b 5f",
        "3:",
        "b.eq 2b",
        "5:",
        "ldur x9, [x29, #-8]",
        "ldr x0, [x9, #8]",
        "mov x1, xzr",
        "b 4b",
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

/// Continues the frame of a [`guard`] whose call has crashed, with its frame pointer and the address of its [`Kept`](super::Kept) in `x0`.
/// If `x1` is not 0, the call may have been in the streaming mode, or have had the matrix register, which both end here.
#[unsafe(naked)]
unsafe extern "C" fn landing() {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_def_cfa x29, 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "cbz x1, 2f",
        ".inst 0xd503467f", // smstop: assemblers know it only for processors that have it
        "2:",
        "ldp x19, x20, [x0]",
        "ldp x21, x22, [x0, #16]",
        "ldp x23, x24, [x0, #32]",
        "ldp x25, x26, [x0, #48]",
        "ldp x27, x28, [x0, #64]",
        "ldp d8, d9, [x0, #80]",
        "ldp d10, d11, [x0, #96]",
        "ldp d12, d13, [x0, #112]",
        "ldp d14, d15, [x0, #128]",
        "ldr x9, [x0, #144]",
        "msr fpcr, x9",
        "bl {landed}",
        "bl {end}",
        "ldur x9, [x29, #-8]",
        "ldr x0, [x9, #8]",
        "mov x1, xzr",
        "mov sp, x29",
        "ldp x29, x30, [sp], #16",
        ".cfi_def_cfa sp, 0",
        ".cfi_restore x29",
        ".cfi_restore x30",
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
        "bti c",
        "mov x17, x2",
        "b {guard}",
        ".cfi_endproc",
        guard = sym guard,
    )
}
