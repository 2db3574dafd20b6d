//! The registers of an interrupted thread.

use std::ffi::c_void;

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

/// The registers of the caller, after a call to a place without code: the call has left the place of its return in x30.
pub(crate) fn return_of_call(registers: &mut [usize; REGISTERS]) -> bool {
    registers[REGISTERS - 1] = registers[30];
    true
}
