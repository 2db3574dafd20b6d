//! A look at what Python's raw allocator frees. CPython's own functions do the work, by malloc, which is the interpreter's
//! heap (the host's `runtime/src/heap`).

use pyo3_ffi::{PyMem_GetAllocator, PyMem_SetAllocator, PyMemAllocatorDomain, PyMemAllocatorEx};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// Called before a block is freed, once it is known.
pub(crate) static BEFORE_FREE: OnceLock<fn()> = OnceLock::new();

/// Has Python's raw allocator call [`BEFORE_FREE`].
///
/// # Safety
/// Nothing has called this interpreter's Python yet.
pub(crate) unsafe fn watch() {
    let mut raw = MaybeUninit::<PyMemAllocatorEx>::uninit();
    // SAFETY: both functions may be called before the start. CPython writes the record, whose functions need no context
    // (`_PyMem_RawMalloc` and its kin in Objects/obmalloc.c), and copies it.
    unsafe {
        PyMem_GetAllocator(PyMemAllocatorDomain::PYMEM_DOMAIN_RAW, raw.as_mut_ptr());
        let raw = raw.assume_init_mut();
        raw.free = Some(free);
        PyMem_SetAllocator(PyMemAllocatorDomain::PYMEM_DOMAIN_RAW, raw);
    }
}

/// `_PyMem_RawFree`, after a call of [`BEFORE_FREE`].
extern "C" fn free(_: *mut c_void, block: *mut c_void) {
    if let Some(before) = BEFORE_FREE.get() {
        before();
    }
    // SAFETY: a block that is not used any more, or null, as the callers of Python's allocators promise.
    unsafe { libc::free(block) };
}
