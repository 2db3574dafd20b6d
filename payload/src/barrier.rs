//! A frame that exceptions of C++ do not pass.
//!
//! An extension module may let an exception out of a function that Python calls. The exception cannot be made an
//! error: CPython's own frames, which it would skip, would leave the interpreter in a state that nobody
//! foresees. Plain python ends in `std::terminate`, which names the exception. Here `catch_unwind` would end the
//! process, with a message that names nothing. So the frame's personality routine (Itanium C++ ABI: Exception
//! Handling, 1.6.3) tells the thrower that nobody catches.

use pyo3_ffi::PyObject;
use std::arch::naked_asm;
use std::ffi::{c_int, c_void};

/// Runs `body`. Panics pass; an exception of another language ends the process as one that nobody catches.
pub(crate) fn call<R>(body: impl FnOnce() -> R) -> R {
    let mut call = Call { body: Some(body), result: None };
    // SAFETY: `run` gets the record that it expects, which outlives the call.
    unsafe { frame(run_of(&call), (&raw mut call).cast()) };
    call.result.expect("the frame has called `run`")
}

struct Call<F, R> {
    body: Option<F>,
    result: Option<R>,
}

type Run = unsafe extern "C-unwind" fn(*mut c_void);

fn run_of<F: FnOnce() -> R, R>(_: &Call<F, R>) -> Run {
    run::<F, R>
}

/// # Safety
/// `call` points to a `Call<F, R>` that nobody else uses.
unsafe extern "C-unwind" fn run<F: FnOnce() -> R, R>(call: *mut c_void) {
    // SAFETY: the caller's promise.
    let call = unsafe { &mut *call.cast::<Call<F, R>>() };
    call.result = call.body.take().map(|body| body());
}

/// Calls `run` with `argument`.
///
/// # Safety
/// As for `run`.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C-unwind" fn frame(run: Run, argument: *mut c_void) {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {personality}", // DW_EH_PE_pcrel | DW_EH_PE_sdata4
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "mov rax, rdi",
        "mov rdi, rsi",
        "call rax",
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
/// As for `run`.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C-unwind" fn frame(run: Run, argument: *mut c_void) {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {personality}", // DW_EH_PE_pcrel | DW_EH_PE_sdata4
        "bti c",
        "stp x29, x30, [sp, #-16]!",
        ".cfi_adjust_cfa_offset 16",
        ".cfi_rel_offset x29, 0",
        ".cfi_rel_offset x30, 8",
        "mov x29, sp",
        "mov x9, x0",
        "mov x0, x1",
        "blr x9",
        "ldp x29, x30, [sp], #16",
        ".cfi_adjust_cfa_offset -16",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "ret",
        ".cfi_endproc",
        personality = sym personality,
    )
}

/// A call by the protocol of PEP 590, or of one of its kin.
type Vectorcall = unsafe extern "C" fn(
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
pub(crate) unsafe extern "C" fn vectorcall(
    callable: *mut PyObject,
    arguments: *const *mut PyObject,
    count: usize,
    keywords: *mut PyObject,
    function: Vectorcall,
) -> *mut PyObject {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {personality}",
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
pub(crate) unsafe extern "C" fn vectorcall(
    callable: *mut PyObject,
    arguments: *const *mut PyObject,
    count: usize,
    keywords: *mut PyObject,
    function: Vectorcall,
) -> *mut PyObject {
    naked_asm!(
        ".cfi_startproc",
        ".cfi_personality 0x1b, {personality}",
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

/// The personality routine of [`frame`] and [`vectorcall`].
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
