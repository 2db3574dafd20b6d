//! The differences between machines: relocation types, and code that cannot be written in Rust.
//!
//! Each machine's module offers the same names. Nothing outside this folder depends on the machine.

#[cfg(not(target_os = "linux"))]
compile_error!("hydrozoa-loader needs Linux");
#[cfg(all(target_os = "linux", not(target_env = "gnu")))]
compile_error!(
    "hydrozoa-loader works beside glibc's dynamic loader, and this target has another C library; \
     build for x86_64-unknown-linux-gnu"
);
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
compile_error!(
    "hydrozoa-loader works beside glibc's dynamic loader, which a program with a static glibc lacks; \
     build without the target feature crt-static"
);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("hydrozoa-loader supports x86-64 and AArch64");

#[cfg(any(target_arch = "aarch64", test))]
#[cfg_attr(
    not(target_arch = "aarch64"),
    expect(dead_code, unused_imports, reason = "compiled for its tests only")
)]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

use crate::tls::Block;

/// The words of the TLS descriptor of `offset` bytes into `block`, given the resolver of offsets
/// from the thread pointer and the one of blocks that must be asked for.
fn descriptor_words(block: Block, offset: u64, resolvers: [u64; 2]) -> Option<[u64; 2]> {
    let [at_one_offset, asked_for] = resolvers;
    match block.thread_pointer_offset(offset).ok() {
        Some(argument) => Some([at_one_offset, argument]),
        None => Some([asked_for, block.descriptor_argument(offset)?]),
    }
}

/// The operation of a relocation, whatever its number on this machine. S, A, B, P: as in the psABI.
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
    #[cfg_attr(target_arch = "aarch64", expect(dead_code, reason = "x86-64 alone has it"))]
    Size32,
    #[cfg_attr(target_arch = "aarch64", expect(dead_code, reason = "x86-64 alone has it"))]
    Size64,
    /// Copies a symbol's data; meaningful in executables only.
    Copy,
}

impl Action {
    /// Bytes that it may write.
    pub(crate) fn size(self) -> usize {
        match self {
            // Both words of the `tls_index`, where no other relocation names the second.
            Action::TlsModule => 16,
            Action::None | Action::Copy => 0,
            Action::Absolute32 | Action::Relative32 | Action::Size32 => 4,
            Action::TlsDescriptor => 16,
            _ => 8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_names_the_resolver_of_its_kind_of_block() {
        let words = |block, offset| descriptor_words(block, offset, [0x100, 0x200]);
        assert_eq!(
            words(Block::Arena { offset: -64 }, 8),
            Some([0x100, 56u64.wrapping_neg()]),
            "an offset from the thread pointer"
        );
        assert_eq!(
            words(Block::Lazy { index: 5, slot: None }, 0x1234),
            Some([0x200, 1 << 63 | 5 << 32 | 0x1234]),
            "ours, module, offset"
        );
        assert_eq!(words(Block::Lazy { index: 5, slot: None }, 1 << 32), None, "beyond any block");
    }
}
