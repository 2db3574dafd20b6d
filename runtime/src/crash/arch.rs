//! A call on another stack.

use std::arch::naked_asm;

/// Calls `function` with `argument` on the stack that ends at `top`, which is aligned to 16 bytes.
///
/// # Safety
///
/// Nobody else uses the stack, and the function has room on it. It does not unwind.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn call_on(
    top: usize,
    function: unsafe extern "C" fn(usize),
    argument: usize,
) {
    naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rsp, rdi",
        "mov rdi, rdx",
        "call rsi",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

/// As on x86-64.
///
/// # Safety
///
/// As there.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(super) unsafe extern "C" fn call_on(
    top: usize,
    function: unsafe extern "C" fn(usize),
    argument: usize,
) {
    naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-16]!",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "mov x29, sp",
        ".cfi_def_cfa_register x29",
        "mov sp, x0",
        "mov x0, x2",
        "blr x1",
        "mov sp, x29",
        "ldp x29, x30, [sp], #16",
        ".cfi_def_cfa sp, 0",
        "ret",
        ".cfi_endproc",
    )
}

#[cfg(test)]
mod tests {
    use super::call_on;

    unsafe extern "C" fn note(place: usize) {
        let here = 0u8;
        // SAFETY: the place that the test has passed.
        unsafe {
            *std::ptr::with_exposed_provenance_mut::<usize>(place) = (&raw const here).addr()
        };
    }

    #[test]
    fn a_function_runs_on_the_stack_that_it_is_given() {
        let mut stack = vec![0u128; 4096];
        let (low, high) = (stack.as_ptr().addr(), stack.as_mut_ptr_range().end.addr());
        let mut place = 0usize;
        // SAFETY: the stack is the test's, and the function writes a word.
        unsafe { call_on(high, note, (&raw mut place).expose_provenance()) };
        assert!((low..high).contains(&place));
    }
}
