//! Thread-local storage: the thread pointer, `__tls_get_addr`; and the call of resolvers.

use std::arch::{asm, naked_asm};
use std::ffi::c_void;

use crate::tls::{TABLE_OFFSET, TlsIndex, lazy_block_address};

/// The address that `%fs` stands for (variant II: it points to itself).
pub(crate) fn thread_pointer() -> usize {
    let pointer: usize;
    // SAFETY: the psABI keeps the thread pointer's own value at %fs:0.
    unsafe {
        asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, pure, readonly, preserves_flags));
    }
    pointer
}

unsafe extern "C" {
    fn __tls_get_addr(index: *const TlsIndex) -> *mut c_void;
}

/// `__tls_get_addr` as replicas see it.
///
/// A negative offset word is an offset from the thread pointer, behind which no static TLS lies
/// here: one test of a register. It comes first, and adds nothing that can be measured to the call
/// through the PLT itself, because an interpreter that keeps its thread's state in such a block
/// asks for it all the time. Otherwise the module word says what the offset word is (see
/// [`crate::tls::Block::module_word`]):
/// - top bit set, bit 0 clear: an offset into a block that the thread gets at its first access. The
///   word is the place, relative to the thread pointer, where later accesses find its address;
/// - both set: likewise, but the address is in the thread's table, whose own address and length are
///   at `TABLE_OFFSET`;
/// - else a module id of glibc, passed on to glibc.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn tls_get_addr(index: *const TlsIndex) -> *mut c_void {
    naked_asm!(
        "mov rax, [rdi + 8]",
        "test rax, rax",
        "jns 2f",
        "add rax, qword ptr fs:[0]",
        "ret",
        "2:",
        "mov rax, [rdi]",
        "test rax, rax",
        "jns 3f",
        "test al, 1",
        "jnz 5f",
        "mov rax, qword ptr fs:[rax]",
        "test rax, rax",
        "jz 4f",
        "add rax, [rdi + 8]",
        "ret",
        "5:",
        "mov rcx, [rip + {table}]",
        "test rcx, rcx",
        "jz 4f",
        "shl rax, 1",
        "shr rax, 2",
        "cmp rax, qword ptr fs:[rcx + 8]",
        "jae 4f",
        "mov rcx, qword ptr fs:[rcx]",
        "mov rax, [rcx + rax * 8]",
        "test rax, rax",
        "jz 4f",
        "add rax, [rdi + 8]",
        "ret",
        "4:",
        // Compilers before GCC 6 call this function with a misaligned stack from leaf functions
        // (GCC bug 58066; glibc has __tls_get_addr_slow for it).
        "push rbp",
        "mov rbp, rsp",
        "and rsp, -16",
        "call {lazy}",
        "leave",
        "ret",
        "3:",
        "jmp {system}@PLT",
        table = sym TABLE_OFFSET,
        lazy = sym lazy_block_address,
        system = sym __tls_get_addr,
    )
}

/// Calls the resolver of an indirect function, which takes no argument here (glibc,
/// sysdeps/x86_64/dl-irel.h).
pub(crate) fn call_resolver(address: usize, _capabilities: fn() -> [u64; 2]) -> usize {
    // SAFETY: the symbol table says that a resolver is at `address`; its object is relocated.
    let resolver: extern "C" fn() -> usize = unsafe { std::mem::transmute(address) };
    resolver()
}
