//! The limit of the memory that an interpreter takes.
//!
//! An embedder may replace CPython's allocators (Doc/c-api/memory.rst). Objects' memory comes from arenas, or, if
//! it is larger than 512 bytes or pymalloc has no arena, from malloc, which is the interpreter's heap. Arenas are
//! counted here, and come from [`crate::allocators::arenas`]. The heap, which the host manages, counts as it grows. An allocation beyond
//! the ceiling fails, and CPython raises MemoryError.

use crate::allocators::arenas;
use crate::allocators::frame_chunks;
use crate::table::MemoryLimit;
use pyo3_ffi::{PyObject_GetArenaAllocator, PyObject_SetArenaAllocator, PyObjectArenaAllocator};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The host's count of the interpreter's memory, or null.
static HOSTS: AtomicPtr<MemoryLimit> = AtomicPtr::new(ptr::null_mut());

/// The count of an interpreter whose memory the host does not count: of its arenas alone.
static OWN: MemoryLimit = MemoryLimit::new();

/// CPython's own allocator of arenas.
struct CPythons(UnsafeCell<MaybeUninit<PyObjectArenaAllocator>>);

// SAFETY: written before Python starts, and only read from then on.
unsafe impl Sync for CPythons {}

static CPYTHONS: CPythons = CPythons(UnsafeCell::new(MaybeUninit::uninit()));

/// The count of the interpreter's memory.
pub(crate) fn limit() -> &'static MemoryLimit {
    // SAFETY: null, or the host's, which lives as long as the process.
    unsafe { HOSTS.load(Ordering::Relaxed).as_ref() }.unwrap_or(&OWN)
}

/// Counts the arenas that Python takes from now on, and gives them a window of their own. `hosts` counts them, if it is not null.
///
/// # Safety
///
/// Nothing has called this interpreter's Python yet. The count lives as long as the process.
pub(crate) unsafe fn count(hosts: *const MemoryLimit) {
    HOSTS.store(hosts.cast_mut(), Ordering::Relaxed);
    arenas::reserve();
    // SAFETY: both functions may be called before the start. The records are valid, and CPython copies them.
    unsafe {
        PyObject_GetArenaAllocator((*CPYTHONS.0.get()).as_mut_ptr());
        PyObject_SetArenaAllocator(&mut PyObjectArenaAllocator {
            ctx: ptr::null_mut(),
            alloc: Some(arena),
            free: Some(free_arena),
        });
    }
}

/// While it lives, the interpreter may take some memory beyond its ceiling.
pub(crate) struct Lifted(());

impl Lifted {
    pub(crate) fn begin() -> Self {
        limit().lift();
        Self(())
    }
}

impl Drop for Lifted {
    fn drop(&mut self) {
        limit().lower();
    }
}

fn cpythons() -> &'static PyObjectArenaAllocator {
    // SAFETY: the functions below are called only after `count` has written it.
    unsafe { (*CPYTHONS.0.get()).assume_init_ref() }
}

extern "C" fn arena(_: *mut c_void, size: usize) -> *mut c_void {
    if !limit().take(size) {
        return ptr::null_mut();
    }
    let placed = match size {
        arenas::ARENA => arenas::take(),
        frame_chunks::SIZE => frame_chunks::take(),
        _ => None,
    };
    let own = || {
        let own = cpythons();
        own.alloc.map_or(ptr::null_mut(), |alloc| alloc(own.ctx, size))
    };
    let arena = placed.unwrap_or_else(own);
    if arena.is_null() {
        limit().give_back(size);
    }
    arena
}

extern "C" fn free_arena(_: *mut c_void, arena: *mut c_void, size: usize) {
    // A sub-interpreter that ends frees each entry of its table, also those that never had an arena (free_obmalloc_arenas in
    // Objects/obmalloc.c).
    if arena.is_null() {
        return;
    }
    limit().give_back(size);
    if arenas::owns(arena) {
        // SAFETY: pymalloc frees an arena once, and only those that `arena` has returned.
        unsafe { arenas::release(arena) };
        return;
    }
    if size != frame_chunks::SIZE || !frame_chunks::keep(arena) {
        free_by_python(arena, size);
    }
}

/// Gives the chunk that is kept back, when Python has ended.
pub(crate) fn free_chunk() {
    if let Some(chunk) = frame_chunks::take() {
        free_by_python(chunk, frame_chunks::SIZE);
    }
}

fn free_by_python(arena: *mut c_void, size: usize) {
    let own = cpythons();
    if let Some(free) = own.free {
        free(own.ctx, arena, size);
    }
}
