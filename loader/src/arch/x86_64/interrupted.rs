//! The registers of an interrupted thread.

use std::ffi::c_void;

use crate::sys::own_memory;

/// As many as unwind tables know by number (psABI, "DWARF Register Number Mapping"), the address of the next instruction
/// being the last.
pub(crate) const REGISTERS: usize = 17;

/// The number of the stack pointer.
pub(crate) const STACK_POINTER: usize = 7;

/// Their names, by number.
pub(crate) const REGISTER_NAMES: [&str; REGISTERS] = [
    "rax", "rdx", "rcx", "rbx", "rsi", "rdi", "rbp", "rsp", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15", "rip",
];

/// The registers in the third argument of a signal's handler, by number.
///
/// # Safety
/// `context` is what the kernel has passed.
pub(crate) unsafe fn registers_of(context: *const c_void) -> [usize; REGISTERS] {
    const PLACES: [libc::c_int; REGISTERS] = [
        libc::REG_RAX,
        libc::REG_RDX,
        libc::REG_RCX,
        libc::REG_RBX,
        libc::REG_RSI,
        libc::REG_RDI,
        libc::REG_RBP,
        libc::REG_RSP,
        libc::REG_R8,
        libc::REG_R9,
        libc::REG_R10,
        libc::REG_R11,
        libc::REG_R12,
        libc::REG_R13,
        libc::REG_R14,
        libc::REG_R15,
        libc::REG_RIP,
    ];
    // SAFETY: the caller's promise.
    let saved = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    PLACES.map(|place| saved[place as usize] as usize)
}

/// The registers that a signal has interrupted, if no unwind table describes that. Here each return from a handler has one, as glibc makes it.
pub(crate) fn interrupted_around(_registers: &[usize; REGISTERS]) -> Option<[usize; REGISTERS]> {
    None
}

/// The extensions of unwind tables.
pub(crate) const VENDOR: gimli::Vendor = gimli::Vendor::Default;

/// The address of a return without a signature, which this machine does not have.
pub(crate) fn without_signature(address: usize) -> usize {
    address
}

/// The registers of the caller, after a call to a place without code. False if there is none to be read.
pub(crate) fn return_of_call(registers: &mut [usize; REGISTERS]) -> bool {
    let Some(caller) = own_memory::word(registers[STACK_POINTER]) else { return false };
    registers[REGISTERS - 1] = caller;
    registers[STACK_POINTER] = registers[STACK_POINTER].wrapping_add(size_of::<usize>());
    true
}
