//! Relocation types of this machine by the words that they write, and the call of a TLS descriptor.

use goblin::elf::{header, reloc};

/// The number of this machine in the headers of its files.
#[cfg(target_arch = "x86_64")]
pub(crate) const MACHINE: u16 = header::EM_X86_64;
#[cfg(target_arch = "aarch64")]
pub(crate) const MACHINE: u16 = header::EM_AARCH64;

/// The kinds of words that relocations write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing.
    Nothing,
    /// Four bytes.
    Half,
    /// An address of the object's own.
    Own,
    /// The address of a function, which may be bound at its first call.
    Function,
    /// A symbol's address and a number that the relocation names.
    Sum,
    /// A module of thread-local data.
    Module,
    /// An offset in the block of a module, whose word stands before.
    Offset,
    /// An offset from the thread pointer.
    ThreadPointer,
    /// Two words: a function that gives an offset from the thread pointer, and its argument.
    Descriptor,
    /// Any other address.
    Address,
}

#[cfg(target_arch = "x86_64")]
impl Kind {
    /// The kind of a relocation type.
    pub(crate) fn of(number: u32) -> Self {
        match number {
            reloc::R_X86_64_NONE => Self::Nothing,
            reloc::R_X86_64_32 | reloc::R_X86_64_PC32 | reloc::R_X86_64_SIZE32 => Self::Half,
            reloc::R_X86_64_RELATIVE => Self::Own,
            reloc::R_X86_64_JUMP_SLOT => Self::Function,
            reloc::R_X86_64_64 => Self::Sum,
            reloc::R_X86_64_DTPMOD64 => Self::Module,
            reloc::R_X86_64_DTPOFF64 => Self::Offset,
            reloc::R_X86_64_TPOFF64 => Self::ThreadPointer,
            reloc::R_X86_64_TLSDESC => Self::Descriptor,
            _ => Self::Address,
        }
    }
}

#[cfg(target_arch = "aarch64")]
impl Kind {
    /// The kind of a relocation type.
    pub(crate) fn of(number: u32) -> Self {
        match number {
            reloc::R_AARCH64_NONE => Self::Nothing,
            reloc::R_AARCH64_ABS32 | reloc::R_AARCH64_PREL32 => Self::Half,
            reloc::R_AARCH64_RELATIVE => Self::Own,
            reloc::R_AARCH64_JUMP_SLOT => Self::Function,
            reloc::R_AARCH64_ABS64 => Self::Sum,
            reloc::R_AARCH64_TLS_DTPMOD => Self::Module,
            reloc::R_AARCH64_TLS_DTPREL => Self::Offset,
            reloc::R_AARCH64_TLS_TPREL => Self::ThreadPointer,
            reloc::R_AARCH64_TLSDESC => Self::Descriptor,
            _ => Self::Address,
        }
    }
}

/// The type with which DT_RELR's places are named.
#[cfg(target_arch = "x86_64")]
pub(crate) const RELATIVE: u32 = reloc::R_X86_64_RELATIVE;
#[cfg(target_arch = "aarch64")]
pub(crate) const RELATIVE: u32 = reloc::R_AARCH64_RELATIVE;

/// Calls the function of a TLS descriptor, and returns the offset from the thread pointer that it gives.
///
/// # Safety
/// A loader has written both words of the descriptor at this address, and its object is still loaded.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn described(descriptor: usize) -> usize {
    let offset: usize;
    // SAFETY: the psABI, "TLS Descriptors": the descriptor's address and the offset are in rax. The caller promises the rest.
    unsafe {
        std::arch::asm!("call qword ptr [rax]", inout("rax") descriptor => offset, clobber_abi("C"));
    }
    offset
}

/// As on x86-64.
///
/// # Safety
/// As on x86-64.
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn described(descriptor: usize) -> usize {
    let offset: usize;
    // SAFETY: ELF for the Arm 64-bit Architecture, "TLS descriptors": the descriptor's address and the offset are in x0. The caller promises the rest.
    unsafe {
        std::arch::asm!(
            "ldr x1, [x0]", "blr x1",
            inout("x0") descriptor => offset, clobber_abi("C"),
        );
    }
    offset
}
