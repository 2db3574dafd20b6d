//! Thread-local storage: the thread pointer, `__tls_get_addr`; and the call of resolvers.

use std::arch::{asm, naked_asm};
use std::ffi::c_void;

use crate::tls::{TlsIndex, lazy_block_address};

/// The register `tpidr_el0` (variant I: blocks lie behind it).
pub(crate) fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads a register that every thread has.
    unsafe {
        asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, pure, nomem, preserves_flags));
    }
    pointer
}

unsafe extern "C" {
    fn __tls_get_addr(index: *const TlsIndex) -> *mut c_void;
}

/// `__tls_get_addr` as replicas see it; the words are those of [`crate::tls::Block::module_word`].
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn tls_get_addr(index: *const TlsIndex) -> *mut c_void {
    naked_asm!(
        "bti c",
        "ldr x1, [x0]",
        "cbnz x1, 2f", // zero: an offset from the thread pointer
        "ldr x0, [x0, #8]",
        "mrs x1, tpidr_el0",
        "add x0, x0, x1",
        "ret",
        "2:",
        "tbz x1, #62, 3f",
        "b {lazy}",
        "3:",
        "b {system}",
        lazy = sym lazy_block_address,
        system = sym __tls_get_addr,
    )
}

/// The shortest `__tls_get_addr` that serves an object with these module words: one serves all.
pub(crate) fn tls_get_addr_for(_modules: impl Iterator<Item = u64> + Clone) -> usize {
    tls_get_addr as *const () as usize
}

/// Lets `call` call the resolver of an indirect function with its arguments. It gets the hardware capabilities
/// with a mark that says that the second argument is there (glibc, sysdeps/aarch64/dl-irel.h).
pub(crate) fn call_resolver<R>(
    capabilities: fn() -> [u64; 2],
    call: impl FnOnce([usize; 3]) -> R,
) -> R {
    /// `__ifunc_arg_t` of `<sys/ifunc.h>`.
    #[repr(C)]
    struct Argument {
        size: u64,
        hwcap: u64,
        hwcap2: u64,
    }
    const HAS_ARGUMENT: u64 = 1 << 62;
    let [hwcap, hwcap2] = capabilities();
    let argument = Argument { size: size_of::<Argument>() as u64, hwcap, hwcap2 };
    call([(hwcap | HAS_ARGUMENT) as usize, (&raw const argument).expose_provenance(), 0])
}
