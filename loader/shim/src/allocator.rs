//! The shim's own memory comes from glibc's allocator, even if the program replaces `malloc`: its
//! `malloc` may call `dlsym`, and so come back here while an allocation is under way.

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_void;

unsafe extern "C" {
    fn __libc_memalign(alignment: usize, size: usize) -> *mut c_void;
    fn __libc_malloc(size: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void;
    fn __libc_realloc(block: *mut c_void, size: usize) -> *mut c_void;
    fn __libc_free(block: *mut c_void);
}

/// The alignment of glibc's `malloc` on this machine.
const ALIGNMENT: usize = 16;

struct Glibc;

#[global_allocator]
static ALLOCATOR: Glibc = Glibc;

// SAFETY: glibc's functions are an allocator of this contract: blocks are of the size and alignment
// asked for, and given back to the same allocator.
unsafe impl GlobalAlloc for Glibc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: plain calls; the alignment is a power of two.
        unsafe {
            if layout.align() <= ALIGNMENT {
                __libc_malloc(layout.size()).cast()
            } else {
                __libc_memalign(layout.align(), layout.size()).cast()
            }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: plain calls; the block has the layout's size.
        unsafe {
            if layout.align() <= ALIGNMENT {
                return __libc_calloc(1, layout.size()).cast();
            }
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the block came from `alloc` with this layout, as the caller promises.
        unsafe {
            if layout.align() <= ALIGNMENT {
                return __libc_realloc(block.cast(), size).cast();
            }
            let moved = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !moved.is_null() {
                moved.copy_from_nonoverlapping(block, size.min(layout.size()));
                self.dealloc(block, layout);
            }
            moved
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, _layout: Layout) {
        // SAFETY: the block came from one of the functions above.
        unsafe { __libc_free(block.cast()) };
    }
}
