//! Chunks of the stack of Python's frames, since 3.11.
//!
//! CPython takes a chunk of 16 KiB from the allocator of arenas when a call finds no room in the last one, and frees it when that call
//! returns (`push_chunk` and `_PyThreadState_PopFrame` in Python/pystate.c). A loop that calls something at the end of a chunk takes
//! and frees one in each round. From mmap that is two calls of the system, a fault for each page, and a lock that all threads
//! of the process share. `import torch, torchvision` does it 5,900 times. So an interpreter keeps one free chunk. Nobody relies
//! on zeros in it: the rest of a chunk has what former frames have left there.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Bytes of a chunk (`DATA_STACK_CHUNK_SIZE`). One for a frame that needs more is larger, and is not kept.
pub(crate) const SIZE: usize = 16 << 10;

/// The free chunk. Threads with GILs of their own may want it at the same time.
static KEPT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// The kept chunk, if there is one. It is the caller's from now on.
pub(crate) fn take() -> Option<*mut c_void> {
    let kept = KEPT.swap(ptr::null_mut(), Ordering::AcqRel);
    (!kept.is_null()).then_some(kept)
}

/// Keeps a free chunk for the next user. False if one is kept already.
pub(crate) fn keep(chunk: *mut c_void) -> bool {
    KEPT.compare_exchange(ptr::null_mut(), chunk, Ordering::AcqRel, Ordering::Relaxed).is_ok()
}
