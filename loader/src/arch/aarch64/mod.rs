//! AArch64 (ELF for the Arm 64-bit Architecture, IHI 0056).
//!
//! Code that only computes numbers and bytes is compiled and tested on every machine; code with
//! instructions of this one, only on it.

mod instruction;
mod relocation;
mod thunk;
mod trampoline;

#[cfg(target_arch = "aarch64")]
mod descriptor;
#[cfg(target_arch = "aarch64")]
mod gather;
#[cfg(target_arch = "aarch64")]
mod guard;
#[cfg(target_arch = "aarch64")]
mod interrupted;
mod late_call;
#[cfg(target_arch = "aarch64")]
mod tls;
#[cfg(target_arch = "aarch64")]
mod variadic;
#[cfg(target_arch = "aarch64")]
mod vfork;

#[cfg(target_arch = "aarch64")]
pub(crate) use descriptor::{descriptor, undefined_weak_descriptor};
#[cfg(target_arch = "aarch64")]
pub(crate) use gather::gathering;
#[cfg(target_arch = "aarch64")]
pub(crate) use guard::{EXCEPTION_REGISTER, RECORD_REGISTER, call_guarded, landing};
#[cfg(target_arch = "aarch64")]
pub(crate) use interrupted::{
    REGISTER_NAMES, REGISTERS, STACK_POINTER, VENDOR, interrupted_around, registers_of,
    return_of_call, without_signature,
};
pub(crate) use late_call::write_late_thunk;
#[cfg(target_arch = "aarch64")]
pub(crate) use tls::{call_resolver, thread_pointer, tls_get_addr, tls_get_addr_for};
#[cfg(target_arch = "aarch64")]
pub(crate) use variadic::variadic;
#[cfg(target_arch = "aarch64")]
pub(crate) use vfork::vforking;

pub(crate) use relocation::{action, relocation_name};
pub(crate) use thunk::{STATIC_CHAIN, THUNK_SIZE, write_thunk};
pub(crate) use trampoline::makes_trampolines;

/// EM_AARCH64.
pub(crate) const MACHINE: u16 = goblin::elf::header::EM_AARCH64;

/// `long double`: as a short vector, it is passed in a vector register (AAPCS64, 6.8.2, C.1).
#[cfg(target_arch = "aarch64")]
pub(crate) type LongDouble = std::arch::aarch64::uint8x16_t;

/// Its decimal digits that count (glibc, misc/qefgcvt.c, NDIGIT).
#[cfg(target_arch = "aarch64")]
pub(crate) const LONG_DOUBLE_DIGITS: usize = 36;

/// Whether the addend of R_AARCH64_GLOB_DAT and R_AARCH64_JUMP_SLOT counts: S + A.
pub(crate) const SLOT_HAS_ADDEND: bool = true;

/// The values of `$PLATFORM` and `$LIB` in search paths (ld.so(8)).
pub(crate) const PLATFORM: &str = "aarch64";
pub(crate) const LIB: &str = "lib/aarch64-linux-gnu";
/// The default directories of libraries.
pub(crate) const LIBRARY_DIRECTORIES: [&str; 4] =
    ["/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/usr/lib64"];
/// Flags of this machine's entries in `ld.so.cache`: FLAG_ELF_LIBC6 | FLAG_AARCH64_LIB64.
pub(crate) const CACHE_FLAGS: u32 = 0x0a03;
