//! A ceiling for the memory that an interpreter's Python code takes.
//!
//! CPython has allocators that an embedder may replace (Doc/c-api/memory.rst). What objects take comes from arenas, or, if
//! it is larger than 512 bytes or pymalloc has no arena, from the raw allocator. Both are counted here. An allocation
//! beyond the ceiling fails, and CPython raises MemoryError. What an extension module takes from malloc by itself is not
//! counted.

use pyo3_ffi::{
    PyMem_GetAllocator, PyMem_SetAllocator, PyMemAllocatorDomain, PyMemAllocatorEx,
    PyObject_GetArenaAllocator, PyObject_SetArenaAllocator, PyObjectArenaAllocator,
};
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

/// CPython's own allocators.
struct Own(UnsafeCell<MaybeUninit<(PyMemAllocatorEx, PyObjectArenaAllocator)>>);

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

/// Counts what Python takes from now on.
///
/// # Safety
///
/// Nothing has called this interpreter's Python yet.
pub(crate) unsafe fn count() {
    let raw = PyMemAllocatorDomain::PYMEM_DOMAIN_RAW;
    // SAFETY: both functions may be called before the start. The records are valid, and CPython copies them.
    unsafe {
        let mut own_raw = MaybeUninit::<PyMemAllocatorEx>::uninit();
        PyMem_GetAllocator(raw, own_raw.as_mut_ptr());
        let mut own_arenas = MaybeUninit::<PyObjectArenaAllocator>::uninit();
        PyObject_GetArenaAllocator(own_arenas.as_mut_ptr());
        (*OWN.0.get()).write((own_raw.assume_init(), own_arenas.assume_init()));
        PyMem_SetAllocator(
            raw,
            &mut PyMemAllocatorEx {
                ctx: ptr::null_mut(),
                malloc: Some(malloc),
                calloc: Some(calloc),
                realloc: Some(realloc),
                free: Some(free),
            },
        );
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
        // Without a ceiling nothing is counted.
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
fn take(bytes: usize) -> bool {
    let before = TAKEN.fetch_add(bytes, Ordering::Relaxed);
    let may = before.checked_add(bytes).is_some_and(|sum| sum <= CEILING.load(Ordering::Relaxed));
    if !may {
        TAKEN.fetch_sub(bytes, Ordering::Relaxed);
    }
    may
}

fn give_back(bytes: usize) {
    // CPython takes a little memory before it looks at its allocators.
    let less = |taken: usize| Some(taken.saturating_sub(bytes));
    let _ = TAKEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
}

fn own() -> &'static (PyMemAllocatorEx, PyObjectArenaAllocator) {
    // SAFETY: the functions below are called only after `set` has written them.
    unsafe { (*OWN.0.get()).assume_init_ref() }
}

/// The size of a block of CPython's raw allocator, which is malloc.
fn size_of_block(block: *mut c_void) -> usize {
    // SAFETY: a block of malloc's, or null.
    unsafe { libc::malloc_usable_size(block) }
}

/// Keeps `block`, for which `asked` bytes were counted, and counts what it really has.
fn settled(block: *mut c_void, asked: usize) -> *mut c_void {
    let size = if block.is_null() { 0 } else { size_of_block(block) };
    if size >= asked {
        TAKEN.fetch_add(size - asked, Ordering::Relaxed);
    } else {
        give_back(asked - size);
    }
    block
}

extern "C" fn malloc(_: *mut c_void, size: usize) -> *mut c_void {
    let (own, _) = own();
    match own.malloc {
        Some(malloc) if take(size) => settled(malloc(own.ctx, size), size),
        _ => ptr::null_mut(),
    }
}

extern "C" fn calloc(_: *mut c_void, count: usize, size: usize) -> *mut c_void {
    let (own, _) = own();
    match (own.calloc, count.checked_mul(size)) {
        (Some(calloc), Some(bytes)) if take(bytes) => settled(calloc(own.ctx, count, size), bytes),
        _ => ptr::null_mut(),
    }
}

extern "C" fn realloc(_: *mut c_void, block: *mut c_void, size: usize) -> *mut c_void {
    let (own, _) = own();
    let before = if block.is_null() { 0 } else { size_of_block(block) };
    let more = size.saturating_sub(before);
    let Some(realloc) = own.realloc else { return ptr::null_mut() };
    if !take(more) {
        return ptr::null_mut();
    }
    let new = realloc(own.ctx, block, size);
    // A failure leaves the block as it was.
    let kept = if new.is_null() { before } else { size_of_block(new) };
    let counted = before + more;
    if kept >= counted {
        TAKEN.fetch_add(kept - counted, Ordering::Relaxed);
    } else {
        give_back(counted - kept);
    }
    new
}

extern "C" fn free(_: *mut c_void, block: *mut c_void) {
    let (own, _) = own();
    if !block.is_null() {
        give_back(size_of_block(block));
    }
    if let Some(free) = own.free {
        free(own.ctx, block);
    }
}

extern "C" fn arena(_: *mut c_void, size: usize) -> *mut c_void {
    let (_, own) = own();
    let Some(alloc) = own.alloc else { return ptr::null_mut() };
    if !take(size) {
        return ptr::null_mut();
    }
    let arena = alloc(own.ctx, size);
    if arena.is_null() {
        give_back(size);
    }
    arena
}

extern "C" fn free_arena(_: *mut c_void, arena: *mut c_void, size: usize) {
    let (_, own) = own();
    give_back(size);
    if let Some(free) = own.free {
        free(own.ctx, arena, size);
    }
}
