//! What differs between machines: relocation types, code that cannot be written in Rust.
//!
//! Each machine's module offers the same names; nothing outside this folder asks which it is.

#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

/// What a relocation does, whatever its number on this machine. S, A, B, P: as in the psABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Nothing.
    None,
    /// B + A.
    Relative,
    /// S + A, 64 bits.
    Absolute,
    /// S, 64 bits: an entry of the global offset table.
    Slot,
    /// S + A, 32 bits, must fit.
    Absolute32,
    /// S + A - P, 32 bits, must fit.
    Relative32,
    /// S + A - P, 64 bits.
    Relative64,
    /// The module word of a `tls_index`.
    TlsModule,
    /// The offset word of a `tls_index`.
    TlsOffset,
    /// Offset from the thread pointer.
    ThreadPointerOffset,
    /// A TLS descriptor: two words.
    TlsDescriptor,
    /// The result of the resolver at B + A.
    IndirectRelative,
    /// Z + A, 32 and 64 bits: the symbol's size.
    Size32,
    Size64,
    /// Copies a symbol's data; meaningful in executables only.
    Copy,
}

impl Action {
    /// Bytes that it writes.
    pub(crate) fn size(self) -> usize {
        match self {
            Action::None | Action::Copy => 0,
            Action::Absolute32 | Action::Relative32 | Action::Size32 => 4,
            Action::TlsDescriptor => 16,
            _ => 8,
        }
    }
}
