//! The functions of C++ and C that take and free blocks.
//!
//! Where a replica's reference to `operator new` would bind to libstdc++'s, it binds to one that asks the interpreter's heap
//! first. A program, or a package, with operators of its own keeps those. `operator delete`, libstdc++'s and that of libraries
//! that are linked with a libstdc++ of their own, frees by `free`. So `free` knows the heaps wherever objects of replicas may get to
//! ([`LoaderBuilder::interpose_everywhere`](hydrozoa_loader::LoaderBuilder::interpose_everywhere)), and `realloc` too: C++ code
//! that gives these what it has from `operator new` works with malloc, although C++ forbids it.
//!
//! A `std::string` takes its text from the heap where code of a replica makes or grows it in line, by `_M_create`. That of
//! libstdc++ calls its own `operator new`, and so does that of CUDA's libcufile, which exports it. Where the program has operators
//! of its own, as with a preloaded tcmalloc, strings keep those: the replica frees by them.
//!
//! `malloc` and `strdup` take from the heap in those libraries of which somebody knows that they free themselves what these give
//! ([`references`]). Of other libraries that is not known, and a block may get to C code of the system, which frees by malloc's
//! `free`.

use super::{Heap, LARGEST, LARGEST_KEPT};
use hydrozoa_loader::Interposition;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

const LIBRARY: &str = "libstdc++.so.6";

/// A definition of a system object, and what stands in its place: the object's soname, the symbol, and the function.
pub(crate) type Definition = (&'static str, &'static str, Interposition);

/// A name, and what stands in the place of each definition of it.
pub(crate) type Function = (&'static str, Interposition);

/// `std::string::_M_create(size_type&, size_type)`.
const CREATE: &str = "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_createERmm";

/// A function of C that gives blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Allocator {
    Malloc,
    Strdup,
}

/// What stands in the place of functions of C for libraries of an interpreter with this heap, by the libraries' sonames: the
/// soname, the symbol, and the function.
pub(crate) fn references<const N: usize>(
    heap: &'static Heap,
    users: [(&'static str, Allocator); N],
) -> [Definition; N] {
    let context = ptr::from_ref(heap).expose_provenance();
    // SAFETY: strdup(3) and malloc(3) have one INTEGER argument; the context becomes the next one.
    let (duplicate, malloc) = unsafe {
        (
            Interposition::with_context(duplicate as *const c_void, 1, context),
            Interposition::with_context(malloc as *const c_void, 1, context),
        )
    };
    users.map(|(soname, allocator)| match allocator {
        Allocator::Malloc => (soname, "malloc", malloc),
        Allocator::Strdup => (soname, "strdup", duplicate),
    })
}

/// One of libstdc++'s own operators. Threads that want it first look it up each, and wait for none: a child that another
/// thread has forked meanwhile would wait for ever.
struct Original {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

static NEW: Original = Original::new(c"_Znwm");
static DELETE: Original = Original::new(c"_ZdlPv");

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

/// What stands in the place of libstdc++'s definitions for an interpreter with this heap.
pub(crate) fn definitions(heap: &'static Heap) -> Vec<Definition> {
    let context = ptr::from_ref(heap).expose_provenance();
    // SAFETY: `operator new(std::size_t)` and its relatives have one INTEGER argument, or two with std::nothrow_t (Itanium C++
    // ABI); the context becomes the next one.
    let (new, new_nothrow) = unsafe {
        (
            Interposition::with_context(new as *const c_void, 1, context),
            Interposition::with_context(new_nothrow as *const c_void, 2, context),
        )
    };
    // SAFETY: `operator delete` has the block as its first argument in all its forms, and needs no other.
    let delete = unsafe { Interposition::function(delete as *const c_void) };
    let all = [
        ("_Znwm", new),
        ("_Znam", new),
        ("_ZnwmRKSt9nothrow_t", new_nothrow),
        ("_ZnamRKSt9nothrow_t", new_nothrow),
        ("_ZdlPv", delete),
        ("_ZdaPv", delete),
        ("_ZdlPvm", delete),
        ("_ZdaPvm", delete),
        ("_ZdlPvRKSt9nothrow_t", delete),
        ("_ZdaPvRKSt9nothrow_t", delete),
    ];
    let mut all = all.map(|(symbol, interposition)| (LIBRARY, symbol, interposition)).to_vec();
    if !program_has_operators() {
        // SAFETY: the function has three INTEGER arguments, `this` among them; the context becomes the next one.
        let create = unsafe { Interposition::with_context(create as *const c_void, 3, context) };
        all.extend([LIBRARY, "libcufile.so.0"].map(|definer| (definer, CREATE, create)));
    }
    all
}

/// Whether `operator new` of the program, or of what it was preloaded with, is another than libstdc++'s.
fn program_has_operators() -> bool {
    // SAFETY: the name is NUL-terminated; the description is written before it is read.
    unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, c"_Znwm".as_ptr());
        let mut object: libc::Dl_info = std::mem::zeroed();
        if found.is_null() || libc::dladdr(found, &mut object) == 0 || object.dli_fname.is_null() {
            return !found.is_null();
        }
        let path = CStr::from_ptr(object.dli_fname).to_bytes();
        !path
            .rsplit(|byte| *byte == b'/')
            .next()
            .is_some_and(|name| name.starts_with(b"libstdc++.so.6"))
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

impl Original {
    const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(ptr::null_mut()) }
    }

    /// It is there when code calls that was bound to it.
    fn address(&self) -> *mut c_void {
        let known = self.found.load(Ordering::Acquire);
        if !known.is_null() {
            return known;
        }
        let found = symbol(self.name);
        self.found.store(found, Ordering::Release);
        found
    }
}

/// `operator new(std::size_t)`.
fn original_new() -> unsafe extern "C-unwind" fn(usize) -> *mut c_void {
    // SAFETY: the function has this signature (Itanium C++ ABI).
    unsafe { std::mem::transmute(NEW.address()) }
}

/// `operator delete(void*)`.
fn original_delete() -> unsafe extern "C-unwind" fn(*mut c_void) {
    // SAFETY: as above.
    unsafe { std::mem::transmute(DELETE.address()) }
}

/// The address of a symbol of libstdc++'s.
fn symbol(name: &CStr) -> *mut c_void {
    // SAFETY: the texts are NUL-terminated. The object is loaded, and is looked for by its name only.
    let found = unsafe {
        let library = libc::dlopen(c"libstdc++.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        libc::dlsym(library, name.as_ptr())
    };
    assert!(!found.is_null(), "libstdc++.so.6 defines {name:?}");
    found
}

/// # Safety
/// The context is that of `definitions`.
unsafe fn heap(context: usize) -> &'static Heap {
    // SAFETY: by contract; a heap is never freed.
    unsafe { &*ptr::with_exposed_provenance(context) }
}

/// `operator new(size)`.
///
/// # Safety
/// Called through its thunk.
unsafe extern "C-unwind" fn new(size: usize, context: usize) -> *mut c_void {
    // SAFETY: by contract.
    let heap = unsafe { heap(context) };
    match heap.kept(size) {
        Some(block) => block,
        None => new_block(heap, size),
    }
}

/// `operator new(size)` where the thread has kept no block.
#[inline(never)]
fn new_block(heap: &'static Heap, size: usize) -> *mut c_void {
    match heap.new_block(LARGEST, size) {
        // SAFETY: the function has no precondition.
        block if block.is_null() => unsafe { original_new()(size) },
        block => block,
    }
}

/// `operator new(size, std::nothrow)`.
///
/// # Safety
/// Called through its thunk.
unsafe extern "C-unwind" fn new_nothrow(
    size: usize,
    _: *const c_void,
    context: usize,
) -> *mut c_void {
    // SAFETY: by contract.
    match unsafe { heap(context) }.allocate(size) {
        // What the operator does but for the program's handler, which may free memory or throw.
        // SAFETY: the function has no precondition.
        block if block.is_null() => unsafe { libc::malloc(size.max(1)) },
        block => block,
    }
}

/// `std::string::_M_create(capacity, former)`: a block for `capacity` bytes and a NUL, and for at least twice as many as before
/// if the string grows (libstdc++, basic_string.tcc). `capacity` becomes that of the block. No memory has the length that
/// libstdc++ refuses by `std::length_error`: here it is `std::bad_alloc`.
///
/// # Safety
/// Called through its thunk.
pub(super) unsafe extern "C-unwind" fn create(
    _: *mut c_void,
    capacity: *mut usize,
    former: usize,
    context: usize,
) -> *mut c_void {
    // SAFETY: by contract.
    let wanted = unsafe { *capacity };
    let bytes = if wanted > former { wanted.max(former.saturating_mul(2)) } else { wanted };
    // SAFETY: by contract.
    let block = unsafe { new(bytes.saturating_add(1), context) };
    // SAFETY: by contract.
    unsafe { *capacity = bytes };
    block
}

/// `malloc(size)`.
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

/// `operator delete(block)`.
///
/// # Safety
/// Nobody uses the block from now on.
unsafe extern "C-unwind" fn delete(block: *mut c_void) {
    match Heap::of(block) {
        // SAFETY: by contract, and the block is one of the heap.
        Some(heap) => unsafe { heap.free(block) },
        // SAFETY: by contract.
        None => unsafe { original_delete()(block) },
    }
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
