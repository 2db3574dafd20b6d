//! Free blocks that a thread keeps for itself, as glibc's malloc does (tcache): a thread that takes a block it has freed itself
//! needs no heap.
//!
//! A thread keeps blocks of one heap, that of the interpreter whose code it runs. It gives them back when it frees a block of
//! another heap, and when it ends. Blocks of a heap that was given back are forgotten: its turn says so.

use super::blocks::{Left, SHORTEST, length_in_use};
use super::within::Within;
use super::{Damage, Heap};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

/// Blocks are kept by lengths, of which the first is that of the shortest block and each further one is longer by that.
const STEP: usize = 16;
const LENGTHS: usize = 64;

/// So many bytes of a length are kept, but [`LEAST`] blocks of each. A call of a model frees tens of the shortest in a row.
const BYTES: usize = 2048;
const LEAST: usize = 8;

#[derive(Clone, Copy)]
struct Bin {
    first: *mut Left,
    /// For so many further blocks there is a place.
    places: usize,
}

impl Bin {
    const fn new(index: usize) -> Self {
        let fit = BYTES / (SHORTEST + index * STEP);
        Self { first: ptr::null_mut(), places: if fit < LEAST { LEAST } else { fit } }
    }
}

/// The bin of the shortest blocks with `size` bytes.
const fn index_for(size: usize) -> usize {
    let size = if size < SHORTEST { SHORTEST } else { size };
    (size - SHORTEST).div_ceil(STEP)
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
            bins: empty(),
            has_ended: Cell::new(false),
        }
    };
    /// Gives the blocks back when the thread ends. The cache itself stays: destructors that run later free objects.
    static END: End = const { End };
}

const fn empty() -> [Cell<Bin>; LENGTHS] {
    let mut bins = [const { Cell::new(Bin::new(0)) }; LENGTHS];
    let mut index = 1;
    while index < LENGTHS {
        bins[index] = Cell::new(Bin::new(index));
        index += 1;
    }
    bins
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

/// A block of `heap` for `size` bytes that the thread has kept. If it lacks the mark, somebody has written into it, or over the link
/// of the block before it.
#[inline]
pub(super) fn take(heap: &'static Heap, size: usize) -> Option<*mut c_void> {
    let index = index_for(size);
    CACHE.with(
        #[inline]
        |cache| {
            let bin = cache.bins.get(index)?;
            let Bin { first, places } = bin.get();
            if first.is_null() || !cache.is_of(heap) {
                return None;
            }
            // SAFETY: a free block that only this thread knows.
            unsafe {
                if (*first).mark != cache.mark() {
                    heap.has_damage(first.cast(), Damage::AfterFree);
                }
                bin.set(Bin { first: (*first).next, places: places + 1 });
                (*first).mark = 0;
            }
            Some(first.cast())
        },
    )
}

/// The fate of a block that was to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    Yes,
    /// The cache is full, or the thread keeps blocks of another heap.
    Not,
    /// It is freed a second time.
    Damaged,
}

/// Keeps a block.
///
/// # Safety
/// It is one of `heap`, and nobody uses it from now on.
#[inline]
pub(super) unsafe fn keep(heap: &'static Heap, block: *mut c_void) -> Kept {
    CACHE.with(
        #[inline]
        |cache| {
            // First: a heap that is left has no blocks with lengths, and has had its turn.
            if !cache.is_of(heap) {
                return Kept::Not;
            }
            // SAFETY: by contract.
            let Some(length) = (unsafe { length_in_use(block) }) else { return Kept::Damaged };
            let index = length.wrapping_sub(SHORTEST) / STEP;
            let Some(bin) = cache.bins.get(index) else { return Kept::Not };
            let Bin { first, places } = bin.get();
            let left: *mut Left = block.cast();
            // SAFETY: the block is free, aligned, and at least as long as its head.
            unsafe {
                if (*left).mark == cache.mark() && is_in(left, first) {
                    return Kept::Damaged;
                }
                if places == 0 {
                    return Kept::Not;
                }
                *left = Left { next: first, mark: cache.mark() };
            }
            bin.set(Bin { first: left, places: places - 1 });
            Kept::Yes
        },
    )
}

/// Whether the thread has kept a block: it is free.
///
/// # Safety
/// It is one of `heap`, as long as its head.
pub(super) unsafe fn has(heap: &'static Heap, block: *mut c_void) -> bool {
    CACHE.with(|cache| {
        // SAFETY: by contract, and the lists are of free blocks.
        let is_kept = |bin: &Cell<Bin>| unsafe { is_in(block.cast(), bin.get().first) };
        // SAFETY: by contract.
        cache.is_of(heap)
            && unsafe { (*block.cast::<Left>()).mark } == cache.mark()
            && cache.bins.iter().any(is_kept)
    })
}

/// Whether a list has a block.
///
/// # Safety
/// It is a list of free blocks.
#[cold]
unsafe fn is_in(block: *mut Left, mut list: *mut Left) -> bool {
    while !list.is_null() && list != block {
        // SAFETY: by contract.
        list = unsafe { (*list).next };
    }
    !list.is_null()
}

/// Has the thread keep blocks of `heap` from now on; false if it does already, or keeps none any more.
pub(super) fn turn_to(heap: &'static Heap) -> bool {
    CACHE.with(|cache| {
        if cache.is_of(heap) || cache.has_ended.get() {
            return false;
        }
        // At first the C library notes what the thread has to do at its end, under a lock.
        let _within = Within::process();
        if END.try_with(|_| ()).is_err() {
            return false;
        }
        cache.give_back();
        cache.heap.set(Some((heap, heap.turn())));
        true
    })
}

impl Cache {
    #[inline]
    fn is_of(&self, heap: &'static Heap) -> bool {
        self.heap.get().is_some_and(|(own, turn)| ptr::eq(own, heap) && turn == heap.turn())
    }

    /// A word that the blocks of this thread have: an address that no user of memory stores.
    #[inline]
    fn mark(&self) -> usize {
        (&raw const self.bins).addr() ^ 0x5a5a
    }

    /// Gives all blocks back to their heap, or forgets them if it was given back itself.
    fn give_back(&self) {
        let Some((heap, turn)) = self.heap.take() else { return };
        let lists: [_; LENGTHS] =
            std::array::from_fn(|index| self.bins[index].replace(Bin::new(index)).first);
        if lists.iter().any(|list| !list.is_null()) {
            // SAFETY: the thread has kept them in that turn, and forgets them now.
            unsafe { heap.put_back_all(turn, self.mark(), lists) };
        }
    }
}
