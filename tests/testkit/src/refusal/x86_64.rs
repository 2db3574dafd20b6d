//! System calls on x86-64 (syscall(2), "Architecture calling conventions").

use super::Call;
use std::ffi::{c_int, c_void};

/// Those that newer machines lack.
pub(super) const EARLIER: [Call; 2] =
    [(libc::SYS_open, "open", &[libc::EMFILE]), (libc::SYS_readlink, "readlink", &[libc::EIO])];

// A system call with six arguments; at `refusal_let_through` the instruction pointer is after it.
std::arch::global_asm!(
    ".globl refusal_make_call",
    "refusal_make_call:",
    "mov rax, rdi",
    "mov rdi, rsi",
    "mov rsi, rdx",
    "mov rdx, rcx",
    "mov r10, r8",
    "mov r8, r9",
    "mov r9, [rsp + 8]",
    "syscall",
    ".globl refusal_let_through",
    "refusal_let_through:",
    "ret",
);

unsafe extern "C" {
    fn refusal_make_call(number: i64, a: i64, b: i64, c: i64, d: i64, e: i64, f: i64) -> i64;
    fn refusal_let_through();
}

/// The instruction pointer of a call that is let through.
pub(super) fn let_through() -> usize {
    refusal_let_through as *const () as usize
}

/// A system call that was stopped. The registers hold its number and arguments, and the kernel takes the result from them.
pub(super) struct Request<'a>(&'a mut [i64; 23]);

impl Request<'_> {
    /// # Safety
    ///
    /// The third argument of the handler of a SIGSYS, which runs.
    pub(super) unsafe fn of(context: *mut c_void) -> Self {
        // SAFETY: by contract.
        Self(unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs })
    }

    fn at(&self, register: c_int) -> i64 {
        self.0[register as usize]
    }

    pub(super) fn number(&self) -> i64 {
        self.at(libc::REG_RAX)
    }

    /// Makes it after all.
    pub(super) fn make(&self) -> i64 {
        let [a, b, c] = [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX].map(|place| self.at(place));
        let [d, e, f] = [libc::REG_R10, libc::REG_R8, libc::REG_R9].map(|place| self.at(place));
        // SAFETY: the call that the interrupted code makes.
        unsafe { refusal_make_call(self.number(), a, b, c, d, e, f) }
    }

    /// Has the interrupted code get this result.
    pub(super) fn answer(&mut self, result: i64) {
        self.0[libc::REG_RAX as usize] = result;
    }
}
