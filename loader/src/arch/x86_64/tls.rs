//! Thread-local storage: the thread pointer, `__tls_get_addr`; and the call of resolvers.

use std::arch::{asm, naked_asm};
use std::ffi::c_void;

use crate::tls::{ARENA, TABLE_OFFSET, TlsIndex, lazy_block_address};

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

/// `__tls_get_addr` for objects all of whose module words are [`ARENA`].
#[unsafe(naked)]
unsafe extern "C" fn tls_get_addr_in_arena(index: *const TlsIndex) -> *mut c_void {
    naked_asm!("mov rax, [rdi + 8]", "add rax, qword ptr fs:[0]", "ret")
}

/// `__tls_get_addr` for objects all of whose module words are places (see
/// [`crate::tls::Block::module_word`]): the thread's own word for the module, which holds the address
/// of its block, or null before the first access; or, for blocks at one offset in all threads,
/// %fs:0, which holds the thread pointer itself.
///
/// One test in five micro-operations: a sixth, and each taken branch, costs a cycle more.
#[unsafe(naked)]
unsafe extern "C" fn tls_get_addr_at_place(index: *const TlsIndex) -> *mut c_void {
    naked_asm!(
        "mov rax, [rdi]",
        "mov rax, qword ptr fs:[rax]",
        "test rax, rax",
        "jz 2f",
        "add rax, [rdi + 8]",
        "ret",
        "2:",
        "jmp {any}",
        any = sym tls_get_addr,
    )
}

/// `__tls_get_addr` as replicas see it.
///
/// A module word that is not positive is a place, as above. In others, bit
/// - 62 and bit 0 set: the thread's table has the address of the block, if the thread has one; where
///   the table is, and its length, is at `TABLE_OFFSET`;
/// - 62 set, bit 0 clear: Rust knows;
/// - 62 clear: it is a module id of glibc, passed on to glibc.
#[unsafe(naked)]
pub(crate) unsafe extern "C" fn tls_get_addr(index: *const TlsIndex) -> *mut c_void {
    naked_asm!(
        "mov rax, [rdi]",
        "test rax, rax",
        "jg 2f",
        "mov rax, qword ptr fs:[rax]",
        "test rax, rax",
        "jz 4f",
        "add rax, [rdi + 8]",
        "ret",
        "2:",
        "bt rax, 62",
        "jnc 3f",
        "test al, 1",
        "jz 4f",
        "mov rcx, [rip + {table}]",
        "test rcx, rcx",
        "jz 4f",
        "shl rax, 2",
        "shr rax, 3",
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

/// The shortest `__tls_get_addr` that serves an object which passes these module words alone.
pub(crate) fn tls_get_addr_for(mut modules: impl Iterator<Item = u64> + Clone) -> usize {
    let shortest: unsafe extern "C" fn(*const TlsIndex) -> *mut c_void =
        // A caller that passes none of these uses its own words.
        if modules.clone().next().is_none() {
            tls_get_addr
        } else if modules.clone().all(|word| word == ARENA) {
            tls_get_addr_in_arena
        } else if modules.all(|word| word as i64 <= 0) {
            tls_get_addr_at_place
        } else {
            tls_get_addr
        };
    shortest as usize
}

/// Lets `call` call the resolver of an indirect function, which takes no argument here (glibc,
/// sysdeps/x86_64/dl-irel.h).
pub(crate) fn call_resolver<R>(
    _capabilities: fn() -> [u64; 2],
    call: impl FnOnce([usize; 3]) -> R,
) -> R {
    call([0; 3])
}
