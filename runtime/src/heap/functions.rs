//! The functions of C that take and free blocks, as an interpreter's code calls them.
//!
//! An interpreter's libraries take by [`interpositions`]. Its libstdc++ is its own, so `operator new` is among them. When memory runs out,
//! libstdc++ itself calls the handler of `std::set_new_handler`.
//!
//! All code that may get a block frees it by [`everywhere`], whose functions know heaps by addresses
//! ([`LoaderBuilder::interpose_everywhere`](hydrozoa_loader::LoaderBuilder::interpose_everywhere)). The C library is part of that, so all of
//! its functions that free or enlarge a caller's block know heaps: `getline`, `argz_add`, `wordexp`, `regcomp`, `obstack_free`.
//!
//! Memory of the C library's own, such as what `asprintf` and `getcwd` return, is malloc's. A stream's buffer may outlive the
//! interpreter, since the C library writes it at exit: a stream that is given one of a heap gets one of the C library's.

use super::within::Within;
use super::{ALIGNMENT, Heap, User, clear};
use hydrozoa_loader::walk::Passes;
use hydrozoa_loader::{Interposition, definition_in_the_program};
use hydrozoa_payload::pages::page_size;
use libc::{FILE, wchar_t};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;

/// A name, and the function that replaces each definition of it.
pub(crate) type Function = (&'static str, Interposition);

/// The program's own functions of the C library.
#[derive(Clone, Copy)]
#[repr(C)]
struct Program {
    malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    memalign: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    realloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    usable: unsafe extern "C" fn(*mut c_void) -> usize,
    free: unsafe extern "C" fn(*mut c_void),
}

static PROGRAM: OnceLock<Program> = OnceLock::new();

impl Program {
    /// Found by name: the program's own calls may be redirected too, to the functions below, and the program may have another
    /// malloc than the C library's.
    fn get() -> &'static Self {
        PROGRAM.get_or_init(|| {
            let names = ["malloc", "memalign", "realloc", "malloc_usable_size", "free"];
            let found = names.map(|name| {
                let found = definition_in_the_program(name);
                found.unwrap_or_else(|| panic!("the C library has no {name}"))
            });
            // SAFETY: the functions have these signatures (<stdlib.h>, <malloc.h>).
            unsafe { std::mem::transmute::<[*const c_void; 5], Self>(found) }
        })
    }
}

/// A block of the program's malloc.
pub(super) fn from_the_program(size: usize, alignment: usize) -> *mut c_void {
    let program = Program::get();
    let _within = Within::process();
    // SAFETY: no precondition; the alignment is a power of two.
    unsafe {
        match alignment {
            ALIGNMENT => (program.malloc)(size),
            _ => (program.memalign)(alignment, size),
        }
    }
}

/// The replacements of functions of the C library, for all code that may get blocks.
pub(crate) fn everywhere() -> Vec<Function> {
    // Before the first call, which comes from anywhere.
    Program::get();
    let functions = [
        ("free", free as *const c_void),
        ("cfree", free as *const c_void),
        // Their further arguments, by C23, say what the block knows.
        ("free_sized", free as *const c_void),
        ("free_aligned_sized", free as *const c_void),
        ("realloc", realloc as *const c_void),
        ("reallocarray", reallocarray as *const c_void),
        ("malloc_usable_size", usable_size as *const c_void),
    ];
    // SAFETY: the functions have the signatures of <stdlib.h> and <malloc.h>.
    functions.map(|(name, target)| (name, unsafe { Interposition::function(target) })).into()
}

/// The replacements for the replicas of an interpreter with this heap, and those for its libpython.
pub(crate) fn interpositions(heap: &'static Heap) -> (Vec<Function>, Vec<Function>) {
    let context = ptr::from_ref(heap).expose_provenance();
    let libraries = [
        ("malloc", malloc as *const c_void, 1),
        ("calloc", calloc as *const c_void, 2),
        ("realloc", realloc_or_malloc as *const c_void, 2),
        ("reallocarray", reallocarray_or_malloc as *const c_void, 3),
        ("memalign", memalign as *const c_void, 2),
        ("aligned_alloc", aligned_alloc as *const c_void, 2),
        ("posix_memalign", posix_memalign as *const c_void, 3),
        ("valloc", valloc as *const c_void, 1),
        ("pvalloc", pvalloc as *const c_void, 1),
        ("strdup", strdup as *const c_void, 1),
        ("__strdup", strdup as *const c_void, 1),
        ("strndup", strndup as *const c_void, 2),
        ("__strndup", strndup as *const c_void, 2),
        ("wcsdup", wcsdup as *const c_void, 1),
        ("malloc_trim", malloc_trim as *const c_void, 1),
    ];
    let of_python = [
        ("malloc", malloc_of_python as *const c_void, 1),
        ("calloc", calloc_of_python as *const c_void, 2),
        ("realloc", realloc_or_malloc_of_python as *const c_void, 2),
    ];
    let streams = [
        ("setvbuf", setvbuf as *const c_void),
        ("setbuffer", setbuffer as *const c_void),
        ("setbuf", setbuf as *const c_void),
    ];
    // SAFETY: the functions have so many INTEGER arguments (<stdlib.h>, <malloc.h>, <string.h>, <wchar.h>); the context becomes the next one.
    let with_heap = |(name, target, arguments)| unsafe {
        (name, Interposition::with_context(target, arguments, context))
    };
    // SAFETY: the functions have the signatures of <stdio.h>.
    let streams = streams.map(|(name, target)| (name, unsafe { Interposition::function(target) }));
    let all = libraries.into_iter().map(with_heap).chain(streams).collect();
    (all, of_python.into_iter().map(with_heap).collect())
}

/// The functions that an interpreter's code takes and frees blocks by, for a judgement whether frames may be discarded. They
/// may while `holds_nothing` says so.
pub(crate) fn discardable(holds_nothing: fn() -> bool) -> impl Iterator<Item = (usize, Passes)> {
    let functions = [
        malloc as *const (),
        malloc_of_python as *const (),
        calloc as *const (),
        calloc_of_python as *const (),
        realloc as *const (),
        realloc_or_malloc as *const (),
        realloc_or_malloc_of_python as *const (),
        reallocarray as *const (),
        reallocarray_or_malloc as *const (),
        memalign as *const (),
        aligned_alloc as *const (),
        posix_memalign as *const (),
        valloc as *const (),
        pvalloc as *const (),
        strdup as *const (),
        strndup as *const (),
        wcsdup as *const (),
        malloc_trim as *const (),
        usable_size as *const (),
        free as *const (),
        // `free` may end by a jump to it.
        Heap::put_back as *const (),
    ];
    functions.into_iter().map(move |function| (function.addr(), Passes::While(holds_nothing)))
}

/// # Safety
/// The context is that of `interpositions`.
#[inline]
unsafe fn heap(context: usize) -> &'static Heap {
    // SAFETY: by contract; a heap is never freed.
    unsafe { &*ptr::with_exposed_provenance(context) }
}

fn set_errno(code: c_int) {
    // SAFETY: the thread's own variable.
    unsafe { *libc::__errno_location() = code };
}

/// The block; sets `errno` if there is none.
#[inline]
fn checked(block: *mut c_void) -> *mut c_void {
    if block.is_null() {
        set_errno(libc::ENOMEM);
    }
    block
}

/// `malloc(size)`.
///
/// # Safety
/// Called through its thunk, as all functions here with a context.
unsafe extern "C" fn malloc(size: usize, context: usize) -> *mut c_void {
    // SAFETY: by contract.
    let heap = unsafe { heap(context) };
    match heap.kept(size) {
        Some(block) => block,
        None => checked(heap.new_block(User::Libraries, size, ALIGNMENT)),
    }
}

unsafe extern "C" fn malloc_of_python(size: usize, context: usize) -> *mut c_void {
    // SAFETY: by contract.
    checked(unsafe { heap(context) }.allocate(User::Python, size))
}

/// Zeros for `count` elements.
fn zeros(heap: &'static Heap, user: User, count: usize, size: usize) -> *mut c_void {
    let size = count.saturating_mul(size);
    let block = checked(heap.allocate(user, size));
    if !block.is_null() && !heap.large.owns(block.addr()) {
        // SAFETY: a new block of that size, whose pages the kernel has filled once.
        unsafe { clear(std::slice::from_raw_parts_mut(block.cast(), size)) };
    }
    block
}

unsafe extern "C" fn calloc(count: usize, size: usize, context: usize) -> *mut c_void {
    // SAFETY: by contract.
    zeros(unsafe { heap(context) }, User::Libraries, count, size)
}

unsafe extern "C" fn calloc_of_python(count: usize, size: usize, context: usize) -> *mut c_void {
    // SAFETY: by contract.
    zeros(unsafe { heap(context) }, User::Python, count, size)
}

unsafe extern "C" fn realloc_or_malloc(
    block: *mut c_void,
    size: usize,
    context: usize,
) -> *mut c_void {
    // SAFETY: by contract.
    unsafe { if block.is_null() { malloc(size, context) } else { realloc(block, size) } }
}

unsafe extern "C" fn realloc_or_malloc_of_python(
    block: *mut c_void,
    size: usize,
    context: usize,
) -> *mut c_void {
    // SAFETY: by contract.
    unsafe { if block.is_null() { malloc_of_python(size, context) } else { realloc(block, size) } }
}

unsafe extern "C" fn reallocarray_or_malloc(
    block: *mut c_void,
    count: usize,
    size: usize,
    context: usize,
) -> *mut c_void {
    let size = count.saturating_mul(size);
    // SAFETY: by contract.
    unsafe { realloc_or_malloc(block, size, context) }
}

/// A block at a multiple of a power of two.
fn aligned(heap: &'static Heap, alignment: usize, size: usize) -> *mut c_void {
    match alignment {
        0..=ALIGNMENT => heap.allocate(User::Libraries, size),
        _ => heap.new_block(User::Libraries, size, alignment),
    }
}

/// `memalign(alignment, size)`; glibc takes the next power of two for another number, and refuses one that has none.
unsafe extern "C" fn memalign(alignment: usize, size: usize, context: usize) -> *mut c_void {
    let Some(alignment) = alignment.max(1).checked_next_power_of_two() else {
        set_errno(libc::EINVAL);
        return ptr::null_mut();
    };
    // SAFETY: by contract.
    checked(aligned(unsafe { heap(context) }, alignment, size))
}

/// `aligned_alloc(alignment, size)`; glibc refuses other numbers than powers of two since 2.38.
unsafe extern "C" fn aligned_alloc(alignment: usize, size: usize, context: usize) -> *mut c_void {
    // SAFETY: by contract.
    unsafe { memalign(alignment, size, context) }
}

unsafe extern "C" fn posix_memalign(
    place: *mut *mut c_void,
    alignment: usize,
    size: usize,
    context: usize,
) -> c_int {
    if !alignment.is_power_of_two() || !alignment.is_multiple_of(size_of::<usize>()) {
        return libc::EINVAL;
    }
    // SAFETY: by contract.
    let block = aligned(unsafe { heap(context) }, alignment, size);
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: a place for the address, by contract.
    unsafe { *place = block };
    0
}

unsafe extern "C" fn valloc(size: usize, context: usize) -> *mut c_void {
    // SAFETY: by contract.
    unsafe { memalign(page_size(), size, context) }
}

unsafe extern "C" fn pvalloc(size: usize, context: usize) -> *mut c_void {
    let size = size.checked_next_multiple_of(page_size()).unwrap_or(usize::MAX);
    // SAFETY: by contract.
    unsafe { memalign(page_size(), size, context) }
}

/// A copy of `length` units, and room for one more.
///
/// # Safety
/// There are so many.
unsafe fn copied<T>(units: *const T, length: usize, context: usize) -> *mut T {
    // SAFETY: by contract; the block is new, and has room for one unit more.
    unsafe {
        let copy: *mut T = malloc((length + 1) * size_of::<T>(), context).cast();
        if !copy.is_null() {
            ptr::copy_nonoverlapping(units, copy, length);
            copy.add(length).write_bytes(0, 1);
        }
        copy
    }
}

unsafe extern "C" fn strdup(text: *const c_char, context: usize) -> *mut c_char {
    // SAFETY: by contract, the text is NUL-terminated.
    unsafe { copied(text, CStr::from_ptr(text).count_bytes(), context) }
}

unsafe extern "C" fn strndup(text: *const c_char, most: usize, context: usize) -> *mut c_char {
    // SAFETY: by contract, the text is NUL-terminated or has so many bytes.
    unsafe { copied(text, libc::strnlen(text, most), context) }
}

unsafe extern "C" fn wcsdup(text: *const wchar_t, context: usize) -> *mut wchar_t {
    // SAFETY: by contract, the text is NUL-terminated.
    unsafe { copied(text, libc::wcslen(text), context) }
}

/// `malloc_trim(pad)`; what arenas keep at their ends is theirs to choose.
unsafe extern "C" fn malloc_trim(_: usize, context: usize) -> c_int {
    // SAFETY: by contract.
    c_int::from(unsafe { heap(context) }.trim())
}

/// `free(block)`.
///
/// # Safety
/// As free(3).
unsafe extern "C" fn free(block: *mut c_void) {
    match Heap::of(block) {
        // SAFETY: by contract, and the block is one of the heap.
        Some(heap) => unsafe { heap.free(block) },
        None => {
            let _within = Within::process();
            // SAFETY: by contract.
            unsafe { (Program::get().free)(block) }
        }
    }
}

/// `realloc(block, size)`, which frees the block if `size` is 0, as glibc's does.
///
/// # Safety
/// As realloc(3).
unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: by contract, and the block is one of the heap, or none is.
    unsafe {
        match Heap::of(block) {
            Some(heap) if size == 0 => {
                heap.free(block);
                ptr::null_mut()
            }
            Some(heap) => checked(heap.resize(block, size)),
            None => {
                let _within = Within::process();
                (Program::get().realloc)(block, size)
            }
        }
    }
}

/// `reallocarray(block, count, size)`.
///
/// # Safety
/// As reallocarray(3).
unsafe extern "C" fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: by contract.
        Some(size) => unsafe { realloc(block, size) },
        None => checked(ptr::null_mut()),
    }
}

/// `malloc_usable_size(block)`.
///
/// # Safety
/// As malloc_usable_size(3).
unsafe extern "C" fn usable_size(block: *mut c_void) -> usize {
    match Heap::of(block) {
        // SAFETY: by contract, and the block is one of the heap.
        Some(heap) => unsafe { heap.length_of(block) },
        None => {
            let _within = Within::process();
            // SAFETY: by contract.
            unsafe { (Program::get().usable)(block) }
        }
    }
}

unsafe extern "C" {
    #[link_name = "setvbuf"]
    fn libc_setvbuf(stream: *mut FILE, buffer: *mut c_char, mode: c_int, size: usize) -> c_int;
}

/// `setvbuf(stream, buffer, mode, size)`. The contents of the buffer are indeterminate at any time (C11, 7.21.5.6), so the C library may
/// use another one.
///
/// # Safety
/// As setvbuf(3).
unsafe extern "C" fn setvbuf(
    stream: *mut FILE,
    buffer: *mut c_char,
    mode: c_int,
    size: usize,
) -> c_int {
    let buffer = if Heap::of(buffer.cast()).is_some() { ptr::null_mut() } else { buffer };
    // SAFETY: by contract.
    unsafe { libc_setvbuf(stream, buffer, mode, size) }
}

unsafe extern "C" fn setbuffer(stream: *mut FILE, buffer: *mut c_char, size: usize) {
    let mode = if buffer.is_null() { libc::_IONBF } else { libc::_IOFBF };
    // SAFETY: by contract.
    unsafe { setvbuf(stream, buffer, mode, size) };
}

unsafe extern "C" fn setbuf(stream: *mut FILE, buffer: *mut c_char) {
    // SAFETY: by contract, the buffer has so many bytes.
    unsafe { setbuffer(stream, buffer, libc::BUFSIZ as usize) };
}
