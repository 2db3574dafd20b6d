//! x86-64 (System V psABI, AMD64 supplement).

mod descriptor;
mod gather;
mod guard;
mod interrupted;
mod late_call;
mod registers;
mod relocation;
mod thunk;
mod tls;
mod trampoline;
mod variadic;
mod vfork;

pub(crate) use descriptor::{descriptor, undefined_weak_descriptor};
pub(crate) use gather::gathering;
pub(crate) use guard::{EXCEPTION_REGISTER, RECORD_REGISTER, call_guarded, landing};
pub(crate) use interrupted::{
    REGISTER_NAMES, REGISTERS, STACK_POINTER, VENDOR, interrupted_around, registers_of,
    return_of_call, without_signature,
};
pub(crate) use late_call::write_late_thunk;
pub(crate) use relocation::{action, relocation_name};
pub(crate) use thunk::{STATIC_CHAIN, THUNK_SIZE, write_thunk};
pub(crate) use tls::{call_resolver, thread_pointer, tls_get_addr, tls_get_addr_for};
pub(crate) use trampoline::makes_trampolines;
pub(crate) use variadic::variadic;
pub(crate) use vfork::vforking;

/// EM_X86_64.
pub(crate) const MACHINE: u16 = goblin::elf::header::EM_X86_64;

/// `long double`, which is passed as the first argument on the stack (psABI, "Parameter Passing"). A larger structure is passed
/// there too. The bytes behind the number are the caller's stack, and are passed on unread.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct LongDouble([u64; 4]);

/// Its decimal digits that count (glibc, misc/qefgcvt.c, NDIGIT).
pub(crate) const LONG_DOUBLE_DIGITS: usize = 21;

/// Whether the addend of R_X86_64_GLOB_DAT and R_X86_64_JUMP_SLOT counts: the psABI has plain S.
pub(crate) const SLOT_HAS_ADDEND: bool = false;

/// The values of `$PLATFORM` and `$LIB` in search paths (ld.so(8)).
pub(crate) const PLATFORM: &str = "x86_64";
pub(crate) const LIB: &str = "lib/x86_64-linux-gnu";
/// The default directories of libraries.
pub(crate) const LIBRARY_DIRECTORIES: [&str; 4] =
    ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64"];
/// Flags of this machine's entries in `ld.so.cache`: FLAG_ELF_LIBC6 | FLAG_X8664_LIB64.
pub(crate) const CACHE_FLAGS: u32 = 0x0303;
