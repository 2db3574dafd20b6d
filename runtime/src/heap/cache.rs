//! Free blocks that a thread keeps for itself, as glibc's malloc has them (tcache): whoever takes what the same thread has
//! freed needs no heap.
//!
//! A thread keeps blocks of one heap, that of the interpreter whose code it runs. It gives them back when it frees a block of
//! another heap, and when it ends. Blocks of a heap that was given back are forgotten: its turn says so.

use super::{Heap, Left, window};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

/// Blocks are kept by lengths, of which the first is that of the shortest block and each further one is longer by that.
const STEP: usize = 16;
const LENGTHS: usize = 32;

/// So many blocks of a length.
const MOST: usize = 8;

/// What every block has beside a multiple of [`STEP`].
const REST: usize = size_of::<usize>();

#[derive(Clone, Copy)]
struct Bin {
    first: *mut Left,
    count: usize,
}

struct Cache {
    /// Whose blocks they are, and in which turn of that heap.
    heap: Cell<Option<(&'static Heap, u64)>>,
    bins: [Cell<Bin>; LENGTHS],
    has_ended: Cell<bool>,
}

thread_local! {
    static CACHE: Cache = const {
        Cache {
            heap: Cell::new(None),
            bins: [const { Cell::new(Bin { first: ptr::null_mut(), count: 0 }) }; LENGTHS],
            has_ended: Cell::new(false),
        }
    };
    /// Gives the blocks back when the thread ends. The cache itself stays: destructors that run later free objects.
    static END: End = const { End };
}

struct End;

impl Drop for End {
    fn drop(&mut self) {
        CACHE.with(|cache| {
            cache.has_ended.set(true);
            cache.give_back();
        });
    }
}

/// A block of `heap` for `size` bytes that the thread has kept.
pub(super) fn take(heap: &'static Heap, size: usize) -> Option<*mut c_void> {
    let index = size.saturating_sub(REST).div_ceil(STEP).saturating_sub(1);
    CACHE.with(|cache| {
        let bin = cache.bins.get(index)?;
        let Bin { first, count } = bin.get();
        if first.is_null() || !cache.is_of(heap) {
            return None;
        }
        // SAFETY: a free block that only this thread knows.
        bin.set(Bin { first: unsafe { (*first).next }, count: count - 1 });
        Some(first.cast())
    })
}

/// Keeps a block; false if there is no place for it.
///
/// # Safety
/// It is one of `heap`, and nobody uses it from now on.
pub(super) unsafe fn keep(heap: &'static Heap, block: *mut c_void) -> bool {
    // SAFETY: by contract.
    let length = unsafe { window::length_of(block) };
    let index = (length - REST) / STEP - 1;
    CACHE.with(|cache| {
        let Some(bin) = cache.bins.get(index) else { return false };
        if !cache.is_of(heap) {
            if cache.has_ended.get() || END.try_with(|_| ()).is_err() {
                return false;
            }
            cache.give_back();
            cache.heap.set(Some((heap, heap.turn())));
        }
        let Bin { first, count } = bin.get();
        if count == MOST {
            return false;
        }
        let left: *mut Left = block.cast();
        // SAFETY: the block is free, aligned, and at least as long as its head.
        unsafe { (*left).next = first };
        bin.set(Bin { first: left, count: count + 1 });
        true
    })
}

impl Cache {
    fn is_of(&self, heap: &'static Heap) -> bool {
        self.heap.get().is_some_and(|(own, turn)| ptr::eq(own, heap) && turn == heap.turn())
    }

    /// Gives all blocks back to their heap, or forgets them if it was given back itself.
    fn give_back(&self) {
        let Some((heap, turn)) = self.heap.take() else { return };
        let none = Bin { first: ptr::null_mut(), count: 0 };
        let lists = self.bins.each_ref().map(|bin| bin.replace(none).first);
        if lists.iter().any(|list| !list.is_null()) {
            // SAFETY: the thread has kept them in that turn, and forgets them now.
            unsafe { heap.put_back_all(turn, lists) };
        }
    }
}
