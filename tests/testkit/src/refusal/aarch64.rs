//! System calls on AArch64 (syscall(2), "Architecture calling conventions").

use super::Call;
use std::ffi::c_void;

/// Those that newer machines lack.
pub(super) const EARLIER: [Call; 0] = [];

// A system call with six arguments; at `refusal_let_through` the program counter is after it.
std::arch::global_asm!(
    ".globl refusal_make_call",
    "refusal_make_call:",
    "mov x8, x0",
    "mov x0, x1",
    "mov x1, x2",
    "mov x2, x3",
    "mov x3, x4",
    "mov x4, x5",
    "mov x5, x6",
    "svc #0",
    ".globl refusal_let_through",
    "refusal_let_through:",
    "ret",
);

unsafe extern "C" {
    fn refusal_make_call(number: i64, a: i64, b: i64, c: i64, d: i64, e: i64, f: i64) -> i64;
    fn refusal_let_through();
}

/// The program counter of a call that is let through.
pub(super) fn let_through() -> usize {
    refusal_let_through as *const () as usize
}

/// A system call that was stopped. The registers hold its number and arguments, and the kernel takes the result from them.
pub(super) struct Request<'a>(&'a mut [u64; 31]);

impl Request<'_> {
    /// # Safety
    ///
    /// The third argument of the handler of a SIGSYS, which runs.
    pub(super) unsafe fn of(context: *mut c_void) -> Self {
        // SAFETY: by contract.
        Self(unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.regs })
    }

    pub(super) fn number(&self) -> i64 {
        self.0[8] as i64
    }

    /// Makes it after all.
    pub(super) fn make(&self) -> i64 {
        let [a, b, c, d, e, f] = [0, 1, 2, 3, 4, 5].map(|place: usize| self.0[place] as i64);
        // SAFETY: the call that the interrupted code makes.
        unsafe { refusal_make_call(self.number(), a, b, c, d, e, f) }
    }

    /// Has the interrupted code get this result.
    pub(super) fn answer(&mut self, result: i64) {
        self.0[0] = result as u64;
    }
}
