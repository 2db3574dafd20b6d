//! A frame that exceptions of C++ do not pass.
//!
//! An extension module may let an exception out of a function that Python calls. The exception cannot be made an
//! error: CPython's own frames, which it would skip, would leave the interpreter in a state that nobody
//! foresees. Plain python ends in `std::terminate`, which names the exception. Rust's declarations say that functions of C
//! do not unwind, so nothing of Rust's is sure to stop it, and the process crashes later without a word. So the frame's
//! personality routine (Itanium C++ ABI: Exception Handling, 1.6.3) tells the thrower that nobody catches.

use pyo3_ffi::PyObject;
use std::arch::naked_asm;
use std::ffi::{c_int, c_void};
use std::ptr;

/// Runs `body`. Panics pass; an exception of another language ends the process as one that nobody catches.
pub(crate) fn stopped<R>(body: impl FnOnce() -> R) -> R {
    let mut call = Call { body: Some(body), result: None };
    let (run, none) = (run_of(&call), ptr::null_mut());
    // SAFETY: `run` gets the record that it expects, which outlives the call.
    unsafe { frame((&raw mut call).cast(), ptr::null(), 0, none, run) };
    call.result.expect("the frame has called `run`")
}

struct Call<F, R> {
    body: Option<F>,
    result: Option<R>,
}

fn run_of<F: FnOnce() -> R, R>(_: &Call<F, R>) -> Function {
    run::<F, R>
}

/// # Safety
/// `call` points to a `Call<F, R>` that nobody else uses.
unsafe extern "C-unwind" fn run<F: FnOnce() -> R, R>(
    call: *mut PyObject,
    _: *const *mut PyObject,
    _: usize,
    none: *mut PyObject,
) -> *mut PyObject {
    // SAFETY: the caller's promise.
    let call = unsafe { &mut *call.cast::<Call<F, R>>() };
    call.result = call.body.take().map(|body| body());
    none
}

/// A function called by the protocol of PEP 590, or by one of its kin.
type Function = unsafe extern "C-unwind" fn(
    *mut PyObject,
    *const *mut PyObject,
    usize,
    *mut PyObject,
) -> *mut PyObject;

/// Calls `function` with the arguments before it.
///
/// # Safety
/// As for `function`.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
pub(crate) unsafe extern "C-unwind" fn frame(
    callable: *mut PyObject,
    arguments: *const *mut PyObject,
    count: usize,
    keywords: *mut PyObject,
    function: Function,
) -> *mut PyObject {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {personality}", // DW_EH_PE_pcrel | DW_EH_PE_sdata4
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call r8",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
        personality = sym personality,
    )
}

/// As above.
///
/// # Safety
/// As for `function`.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
pub(crate) unsafe extern "C-unwind" fn frame(
    callable: *mut PyObject,
    arguments: *const *mut PyObject,
    count: usize,
    keywords: *mut PyObject,
    function: Function,
) -> *mut PyObject {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {personality}", // DW_EH_PE_pcrel | DW_EH_PE_sdata4
        "bti c",
        "stp x29, x30, [sp, #-16]!",
        ".cfi_adjust_cfa_offset 16",
        ".cfi_rel_offset x29, 0",
        ".cfi_rel_offset x30, 8",
        "mov x29, sp",
        "blr x4",
        "ldp x29, x30, [sp], #16",
        ".cfi_adjust_cfa_offset -16",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "ret",
        ".cfi_endproc",
        personality = sym personality,
    )
}

/// The personality routine of [`frame`].
unsafe extern "C" fn personality(
    _version: c_int,
    actions: c_int,
    class: u64,
    _exception: *mut c_void,
    _context: *mut c_void,
) -> c_int {
    // Bits of `_Unwind_Action` and values of `_Unwind_Reason_Code` (1.2.1 and 1.6.1 there).
    const SEARCH_PHASE: c_int = 1;
    const FORCED: c_int = 8;
    const FATAL_IN_SEARCH: c_int = 3;
    const CONTINUE: c_int = 8;
    // Of this release of Rust and of earlier ones (library/panic_unwind/src/gcc.rs).
    let panics = [u64::from_ne_bytes(*b"MOZ\0RUST"), u64::from_be_bytes(*b"MOZ\0RUST")];
    if panics.contains(&class) || actions & FORCED != 0 || actions & SEARCH_PHASE == 0 {
        CONTINUE
    } else {
        FATAL_IN_SEARCH
    }
}
