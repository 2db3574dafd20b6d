//! A ceiling for the memory that an interpreter's Python code takes.
//!
//! CPython has allocators that an embedder may replace (Doc/c-api/memory.rst). What objects take comes from arenas, or, if
//! it is larger than 512 bytes or pymalloc has no arena, from the raw allocator, which is [`crate::heap`]. Arenas are
//! counted here, and come from [`crate::arenas`]. The heap counts as it grows. An allocation beyond the ceiling fails, and CPython raises MemoryError.
//! What an extension module takes from malloc by itself is not counted.

use crate::arenas;
use crate::chunks;
use pyo3_ffi::{PyObject_GetArenaAllocator, PyObject_SetArenaAllocator, PyObjectArenaAllocator};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that are taken.
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// Bytes that may be taken, once the interpreter has started: CPython ends the process where it cannot start
/// (`Py_FatalError`).
static CEILING: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Bytes beyond the ceiling for the description of an exception to the host.
const RESERVE: usize = 4 << 20;

/// CPython's own allocator of arenas.
struct Own(UnsafeCell<MaybeUninit<PyObjectArenaAllocator>>);

// SAFETY: written before Python starts, and only read from then on.
unsafe impl Sync for Own {}

static OWN: Own = Own(UnsafeCell::new(MaybeUninit::uninit()));

/// Lets Python have `bytes` from now on, or returns how many it has taken, if those are more.
pub(crate) fn set(bytes: usize) -> Result<(), usize> {
    match TAKEN.load(Ordering::Relaxed) {
        taken if taken > bytes => Err(taken),
        _ => {
            CEILING.store(bytes, Ordering::Relaxed);
            Ok(())
        }
    }
}

/// Counts the arenas that Python takes from now on, and gives them a window of their own.
///
/// # Safety
///
/// Nothing has called this interpreter's Python yet.
pub(crate) unsafe fn count() {
    arenas::reserve();
    // SAFETY: both functions may be called before the start. The records are valid, and CPython copies them.
    unsafe {
        PyObject_GetArenaAllocator((*OWN.0.get()).as_mut_ptr());
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
        // Without a ceiling there is nothing to lift.
        if CEILING.load(Ordering::Relaxed) != usize::MAX {
            CEILING.fetch_add(RESERVE, Ordering::Relaxed);
        }
        Self(())
    }
}

impl Drop for Lifted {
    fn drop(&mut self) {
        if CEILING.load(Ordering::Relaxed) != usize::MAX {
            CEILING.fetch_sub(RESERVE, Ordering::Relaxed);
        }
    }
}

/// Whether so many bytes more may be taken. They are counted then.
pub(crate) fn take(bytes: usize) -> bool {
    let before = TAKEN.fetch_add(bytes, Ordering::Relaxed);
    let may = before.checked_add(bytes).is_some_and(|sum| sum <= CEILING.load(Ordering::Relaxed));
    if !may {
        TAKEN.fetch_sub(bytes, Ordering::Relaxed);
    }
    may
}

/// Counts so many bytes, which were taken, no more.
pub(crate) fn give_back(bytes: usize) {
    TAKEN.fetch_sub(bytes, Ordering::Relaxed);
}

fn own() -> &'static PyObjectArenaAllocator {
    // SAFETY: the functions below are called only after `count` has written it.
    unsafe { (*OWN.0.get()).assume_init_ref() }
}

extern "C" fn arena(_: *mut c_void, size: usize) -> *mut c_void {
    if !take(size) {
        return ptr::null_mut();
    }
    let placed = match size {
        arenas::ARENA => arenas::take(),
        chunks::SIZE => chunks::take(),
        _ => None,
    };
    let own = || {
        let own = own();
        own.alloc.map_or(ptr::null_mut(), |alloc| alloc(own.ctx, size))
    };
    let arena = placed.unwrap_or_else(own);
    if arena.is_null() {
        give_back(size);
    }
    arena
}

extern "C" fn free_arena(_: *mut c_void, arena: *mut c_void, size: usize) {
    // A sub-interpreter that ends frees each entry of its table, also those that never had an arena (free_obmalloc_arenas in
    // Objects/obmalloc.c).
    if arena.is_null() {
        return;
    }
    give_back(size);
    if arenas::owns(arena) {
        // SAFETY: pymalloc frees an arena once, and only those that `arena` has returned.
        unsafe { arenas::release(arena) };
        return;
    }
    if size != chunks::SIZE || !chunks::keep(arena) {
        free_by_python(arena, size);
    }
}

/// Gives the chunk that is kept back, when Python has ended.
pub(crate) fn free_chunk() {
    if let Some(chunk) = chunks::take() {
        free_by_python(chunk, chunks::SIZE);
    }
}

fn free_by_python(arena: *mut c_void, size: usize) {
    let own = own();
    if let Some(free) = own.free {
        free(own.ctx, arena, size);
    }
}
