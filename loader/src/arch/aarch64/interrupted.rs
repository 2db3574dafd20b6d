//! The registers of an interrupted thread.

use std::arch::asm;
use std::ffi::c_void;

use crate::sys::own_memory;

/// As many as a frame's rules name here ("DWARF for the Arm 64-bit Architecture", 4.1): x0 to x30 and sp. The address of the
/// next instruction is the last, in the place of the document's PC.
pub(crate) const REGISTERS: usize = 33;

/// The number of the stack pointer.
pub(crate) const STACK_POINTER: usize = 31;

/// Their names, by number.
pub(crate) const REGISTER_NAMES: [&str; REGISTERS] = [
    "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14",
    "x15", "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27",
    "x28", "x29", "x30", "sp", "pc",
];

/// The head of the kernel's `struct ucontext` (asm/ucontext.h) up to the program counter. `struct sigcontext` in it is
/// aligned to 16 bytes.
#[repr(C)]
struct Context {
    flags: usize,
    link: usize,
    stack: [usize; 3],
    mask: [usize; 16],
    _alignment: usize,
    fault_address: usize,
    registers: [usize; REGISTERS],
}

/// The registers in the third argument of a signal's handler, by number.
///
/// # Safety
/// `context` is what the kernel has passed.
pub(crate) unsafe fn registers_of(context: *const c_void) -> [usize; REGISTERS] {
    // SAFETY: the caller's promise.
    unsafe { (*context.cast::<Context>()).registers }
}

/// The registers that a signal has interrupted, if a frame returns from the signal's handler. No unwind table describes that since Linux 5.8:
/// unwinders know the instructions, and the kernel's frame that lies at the stack pointer (arch/arm64/kernel/vdso/sigreturn.S and signal.c).
pub(crate) fn interrupted_around(registers: &[usize; REGISTERS]) -> Option<[usize; REGISTERS]> {
    /// `mov x8, #139; svc #0`: rt_sigreturn.
    const RETURN: usize = 0xd400_0001_d280_1168;
    /// `struct rt_sigframe` begins with a `siginfo_t`.
    const CONTEXT: usize = size_of::<libc::siginfo_t>();
    if own_memory::word(registers[REGISTERS - 1])? != RETURN {
        return None;
    }
    let mut words = [0; size_of::<[usize; REGISTERS]>()];
    let place = registers[STACK_POINTER] + CONTEXT + std::mem::offset_of!(Context, registers);
    own_memory::read(place, &mut words).then(|| {
        let (words, _) = words.as_chunks::<{ size_of::<usize>() }>();
        std::array::from_fn(|at| usize::from_ne_bytes(words[at]))
    })
}

/// The extensions of unwind tables: for signed addresses of returns.
pub(crate) const VENDOR: gimli::Vendor = gimli::Vendor::AArch64;

/// The address of a return without the signature that a function may have put into its upper bits.
pub(crate) fn without_signature(address: usize) -> usize {
    let plain: usize;
    // SAFETY: the hint is `xpaclri`, which changes x30 alone. Processors that sign nothing take it for no operation (Arm ARM, C6.2).
    unsafe {
        asm!(
            "mov x30, {signed}", "hint #7", "mov {plain}, x30",
            signed = in(reg) address, plain = out(reg) plain, out("x30") _,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    plain
}

/// The registers of the caller, after a call to a place without code: the call has left the place of its return in x30.
pub(crate) fn return_of_call(registers: &mut [usize; REGISTERS]) -> bool {
    registers[REGISTERS - 1] = registers[30];
    true
}
