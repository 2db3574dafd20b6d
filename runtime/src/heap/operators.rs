//! The functions of C++ and C that take and free blocks.
//!
//! `operator new`, and what else libstdc++ makes, takes by `malloc`. An interpreter has a libstdc++ of its own, whose `malloc` asks
//! the interpreter's heap first. `operator delete` frees by `free`. So `free` knows the heaps wherever objects of replicas may get to
//! ([`LoaderBuilder::interpose_everywhere`](hydrozoa_loader::LoaderBuilder::interpose_everywhere)), and `realloc` too: C++ code
//! that gives these what it has from `operator new` works with malloc, although C++ forbids it. What a handler of
//! `std::set_new_handler` does when there is no memory is libstdc++'s own work. A package with operators of its own, or with a
//! libstdc++ in it, keeps those.
//!
//! `malloc` and `strdup` take from the heap in those other libraries too of which somebody knows that they free themselves what these
//! give ([`references`]). Of further libraries that is not known, and a block may get to C code of the system, which frees by malloc's
//! `free`.

use super::{Heap, LARGEST, LARGEST_KEPT};
use hydrozoa_loader::Interposition;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::OnceLock;

/// What stands in the place of a library's references to a symbol: the library's soname, the symbol, and the function.
pub(crate) type Reference = (&'static str, &'static str, Interposition);

/// A name, and what stands in the place of each definition of it.
pub(crate) type Function = (&'static str, Interposition);

/// What stands in the place of functions of C for libstdc++, and for these further libraries, of an interpreter with this heap. The
/// libraries are known by their sonames; each has one function, `malloc` or `strdup`.
pub(crate) fn references(
    heap: &'static Heap,
    users: &[(&'static str, &'static str)],
) -> Vec<Reference> {
    let context = ptr::from_ref(heap).expose_provenance();
    // SAFETY: strdup(3) and malloc(3) have one INTEGER argument; the context becomes the next one.
    let (duplicate, malloc, objects) = unsafe {
        (
            Interposition::with_context(duplicate as *const c_void, 1, context),
            Interposition::with_context(malloc as *const c_void, 1, context),
            Interposition::with_context(malloc_of_objects as *const c_void, 1, context),
        )
    };
    let users = users.iter().map(|&(soname, function)| match function {
        "strdup" => (soname, function, duplicate),
        _ => (soname, "malloc", malloc),
    });
    users.chain([("libstdc++.so.6", "malloc", objects)]).collect()
}

/// The program's own functions of the C library.
struct Program {
    free: unsafe extern "C" fn(*mut c_void),
    realloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
}

static PROGRAM: OnceLock<Program> = OnceLock::new();

impl Program {
    /// Found by name: the program's own calls may be redirected too, to the functions below, if it defines C++ functions for
    /// a replica.
    fn get() -> &'static Self {
        PROGRAM.get_or_init(|| {
            // SAFETY: the names are NUL-terminated. The functions have these signatures (<stdlib.h>).
            unsafe {
                let [free, realloc] = [c"free", c"realloc"]
                    .map(|name| libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()));
                assert!(
                    !free.is_null() && !realloc.is_null(),
                    "the C library has free and realloc"
                );
                Self {
                    free: std::mem::transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(
                        free,
                    ),
                    realloc: std::mem::transmute::<
                        *mut c_void,
                        unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
                    >(realloc),
                }
            }
        })
    }
}

/// What stands in the place of functions of the C library, for all code that may get blocks. None if there are no heaps.
pub(crate) fn functions() -> Vec<Function> {
    if !Heap::CAN_BE {
        return Vec::new();
    }
    // Before the first call, which comes from anywhere.
    Program::get();
    // SAFETY: the functions have the signatures of <stdlib.h>.
    unsafe {
        vec![
            ("free", Interposition::function(free as *const c_void)),
            ("realloc", Interposition::function(realloc as *const c_void)),
        ]
    }
}

/// # Safety
/// The context is that of `references`.
unsafe fn heap(context: usize) -> &'static Heap {
    // SAFETY: by contract; a heap is never freed.
    unsafe { &*ptr::with_exposed_provenance(context) }
}

/// `malloc(size)` of libstdc++.
///
/// # Safety
/// Called through its thunk.
unsafe extern "C" fn malloc_of_objects(size: usize, context: usize) -> *mut c_void {
    // SAFETY: by contract.
    let heap = unsafe { heap(context) };
    match heap.kept(size) {
        Some(block) => block,
        None => new_block(heap, size),
    }
}

/// `malloc(size)` of libstdc++ where the thread has kept no block.
#[inline(never)]
fn new_block(heap: &'static Heap, size: usize) -> *mut c_void {
    match heap.new_block(LARGEST, size) {
        // SAFETY: no precondition.
        block if block.is_null() => unsafe { libc::malloc(size) },
        block => block,
    }
}

/// `malloc(size)` of another library.
///
/// # Safety
/// Called through its thunk.
unsafe extern "C" fn malloc(size: usize, context: usize) -> *mut c_void {
    // SAFETY: by contract.
    match unsafe { heap(context) }.allocate_up_to(LARGEST_KEPT, size) {
        // SAFETY: no precondition.
        block if block.is_null() => unsafe { libc::malloc(size) },
        block => block,
    }
}

/// `strdup(text)`.
///
/// # Safety
/// Called through its thunk, with a text that is NUL-terminated.
unsafe extern "C" fn duplicate(text: *const c_char, context: usize) -> *mut c_char {
    // SAFETY: by contract.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes_with_nul();
    // SAFETY: by contract.
    let block: *mut c_char = unsafe { heap(context) }.allocate(bytes.len()).cast();
    if block.is_null() {
        // SAFETY: by contract.
        return unsafe { libc::strdup(text) };
    }
    // SAFETY: a new block of so many bytes.
    unsafe { ptr::copy_nonoverlapping(text, block, bytes.len()) };
    block
}

/// `free(block)`.
///
/// # Safety
/// As free(3).
unsafe extern "C" fn free(block: *mut c_void) {
    match Heap::of(block) {
        // SAFETY: by contract, and the block is one of the heap.
        Some(heap) => unsafe { heap.free(block) },
        // SAFETY: by contract.
        None => unsafe { (Program::get().free)(block) },
    }
}

/// `realloc(block, size)`.
///
/// # Safety
/// As realloc(3).
unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    match Heap::of(block) {
        // SAFETY: by contract, and the block is one of the heap.
        Some(heap) => unsafe { heap.moved(block, size) },
        // SAFETY: by contract.
        None => unsafe { (Program::get().realloc)(block, size) },
    }
}
