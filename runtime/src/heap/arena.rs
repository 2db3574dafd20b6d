//! An arena of a heap: Doug Lea's malloc in one slice of the window, which one thread at a time uses.
//!
//! No thread waits for an arena. An allocation goes to another one, and a freed block is left to the next thread that takes its
//! arena. So a forked child goes on whatever other threads did, and so does an interpreter whose thread has stopped here.

use super::blocks::{self, Left};
use super::slice::Slice;
use super::within::own_number;
use dlmalloc::Dlmalloc;
use hydrozoa_payload::pages::page_size;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// An arena. No two share a line of a cache.
#[repr(align(128))]
pub(super) struct Arena {
    slice: &'static Slice,
    /// [`FREE`], or the number of the thread that has it ([`own_number`]) and perhaps [`LOST`], or one of the others.
    state: AtomicUsize,
    blocks: UnsafeCell<Blocks>,
    /// Blocks that were freed while the arena was taken, linked by their first words.
    left: AtomicPtr<Left>,
    /// The most free bytes that its end keeps, for the next users.
    most_kept: usize,
    /// The heap's note of a damaged block ([`super::Heap`]).
    damage: &'static AtomicUsize,
}

const FREE: usize = 0;
/// The thread has it for longer than others wait: they do not wait again. In a forked child that thread may not exist.
const LOST: usize = 1;
/// A thread keeps it as it is. Others that need this arena wait.
const STILL: usize = 2;
/// The thread that had it has left it half changed, and nobody has it.
const DEAD: usize = 4;
/// The bits of a state that are not of a thread's number.
const BITS: usize = 7;

struct Blocks {
    heap: Dlmalloc<&'static Slice>,
    /// So much freed memory is kept at its end.
    kept: usize,
}

/// dlmalloc's threshold (`DEFAULT_TRIM_THRESHOLD`).
const KEPT: usize = 2 << 20;

/// So much stays when more is given back (glibc's `DEFAULT_TOP_PAD`).
const STAYS: usize = 128 << 10;

/// How often, and after which time, a thread tries to take an arena if it must: a tenth of a second.
const TRIES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(1);

// SAFETY: only the thread that has taken the arena uses the blocks.
unsafe impl Sync for Arena {}

/// An arena that was taken. Others take and free no memory of it until this is dropped.
pub(super) struct Taken<'a>(&'a Arena);

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.state.store(FREE, Ordering::Release);
    }
}

impl Taken<'_> {
    fn blocks(&mut self) -> &mut Blocks {
        // SAFETY: nobody else has taken the arena.
        unsafe { &mut *self.0.blocks.get() }
    }

    /// The addresses that are in use.
    pub(super) fn used(&self) -> Range<usize> {
        self.0.used()
    }

    /// A block; null if there is no room, or the interpreter may not have more.
    pub(super) fn allocate(&mut self, size: usize, alignment: usize) -> *mut c_void {
        // SAFETY: no precondition; the alignment is a power of two.
        unsafe { self.blocks().heap.c_memalign(alignment, size) }.cast()
    }

    /// The block with another size, perhaps at another address; null, without a change, if there is no room.
    ///
    /// # Safety
    /// It is one of this arena, sound and in use.
    pub(super) unsafe fn resize(&mut self, block: *mut c_void, size: usize) -> *mut c_void {
        // SAFETY: by contract.
        unsafe { self.blocks().heap.c_realloc(block.cast(), size) }.cast()
    }

    /// Frees a block. False, without a change, if it or a neighbour of it is damaged.
    ///
    /// # Safety
    /// It lies in the used part of the slice, and nobody uses it from now on.
    pub(super) unsafe fn free(&mut self, block: *mut c_void) -> bool {
        let (slice, most) = (self.0.slice, self.0.most_kept);
        // SAFETY: by contract.
        if !unsafe { blocks::is_sound(block, slice.used()) } {
            return false;
        }
        let blocks = self.blocks();
        // SAFETY: a sound block, by contract free from now on.
        let at_end = unsafe {
            blocks.kept = blocks.kept.max((2 * blocks::length_of(block)).min(most));
            let at_end = blocks::free_at_end(block, slice.used());
            blocks.heap.c_free(block.cast());
            at_end
        };
        if at_end > blocks.kept {
            // SAFETY: no precondition.
            slice.shrinking(|| unsafe { blocks.heap.trim(STAYS) });
        }
        true
    }

    /// Gives all free memory at the end back.
    pub(super) fn trim(&mut self) -> bool {
        let slice = self.0.slice;
        // SAFETY: no precondition.
        slice.shrinking(|| unsafe { self.blocks().heap.trim(0) })
    }

    /// Gives the pages of all free memory back, and returns how many bytes they are, those at the end not counted.
    pub(super) fn give_back_pages(&mut self) -> usize {
        self.trim();
        let used = self.0.slice.used();
        // SAFETY: nobody else changes the blocks.
        unsafe { blocks::free_ranges(used) }
            .filter(|range| range.len() >= page_size())
            .map(|range| {
                let place = ptr::with_exposed_provenance_mut(range.start);
                // SAFETY: the pages lie between the words that a free block has.
                unsafe { libc::madvise(place, range.len(), libc::MADV_DONTNEED) };
                range.len()
            })
            .sum()
    }

    /// Frees a list of blocks. If one is damaged, what follows it stays, and the heap has a note.
    ///
    /// # Safety
    /// They are free blocks of this arena, which are in no other list.
    unsafe fn free_all(&mut self, mut left: *mut Left) {
        while !left.is_null() {
            // SAFETY: by contract, as far as the block is whole.
            unsafe {
                let is_whole = blocks::is_whole(left.cast(), self.used());
                let next = if is_whole { (*left).next } else { ptr::null_mut() };
                if !is_whole || !self.free(left.cast()) {
                    self.0.damage.store(left.addr(), Ordering::Relaxed);
                }
                left = next;
            }
        }
    }
}

impl Arena {
    pub(super) fn new(
        slice: &'static Slice,
        most_kept: usize,
        damage: &'static AtomicUsize,
    ) -> Self {
        let heap = Dlmalloc::new_with_allocator(slice);
        Self {
            slice,
            state: AtomicUsize::new(FREE),
            blocks: UnsafeCell::new(Blocks { heap, kept: KEPT }),
            left: AtomicPtr::new(ptr::null_mut()),
            most_kept: most_kept.max(KEPT),
            damage,
        }
    }

    /// The addresses that are in use.
    pub(super) fn used(&self) -> Range<usize> {
        self.slice.used()
    }

    /// Takes the arena, unless another thread has it.
    #[inline]
    pub(super) fn take(&self) -> Option<Taken<'_>> {
        let order = (Ordering::Acquire, Ordering::Relaxed);
        self.state.compare_exchange(FREE, own_number(), order.0, order.1).ok()?;
        let mut taken = Taken(self);
        if !self.left.load(Ordering::Relaxed).is_null() {
            // SAFETY: blocks of this arena that others have freed.
            unsafe { taken.free_all(self.left.swap(ptr::null_mut(), Ordering::Acquire)) };
        }
        Some(taken)
    }

    /// Whether it is taken, and may be free later.
    pub(super) fn may_come_back(&self) -> bool {
        self.state.load(Ordering::Relaxed) & (LOST | DEAD) == 0
    }

    /// The calling thread has left it for ever if it had it.
    pub(super) fn abandon(&self) {
        if self.state.load(Ordering::Relaxed) & !BITS == own_number() {
            self.state.store(DEAD, Ordering::Release);
        }
    }

    /// Takes the arena once no other thread has it; `None` if that takes too long, or did once. Waits without a limit for one that
    /// keeps it still.
    pub(super) fn taken(&self) -> Option<Taken<'_>> {
        let mut attempt = 0;
        while attempt < TRIES {
            if let Some(taken) = self.take() {
                return Some(taken);
            }
            if !self.may_come_back() {
                return None;
            }
            match attempt {
                0 => {}
                1..100 => thread::yield_now(),
                _ => thread::sleep(PAUSE),
            }
            let is_still = self.state.load(Ordering::Relaxed) == STILL;
            attempt = if is_still { attempt.max(100) } else { attempt + 1 };
        }
        let (order, state) = (Ordering::Relaxed, self.state.load(Ordering::Relaxed));
        if state & !BITS != 0 {
            let _ = self.state.compare_exchange(state, state | LOST, order, order);
        }
        None
    }

    /// Takes the arena as it is, with nothing free at its end, and keeps it so.
    pub(super) fn still(&self) -> Option<Taken<'_>> {
        let mut taken = self.taken()?;
        if self.damage.load(Ordering::Relaxed) != 0 {
            return None;
        }
        taken.trim();
        self.state.store(STILL, Ordering::Relaxed);
        Some(taken)
    }

    /// Frees a block, now or when the arena is taken next. False if it is damaged.
    ///
    /// # Safety
    /// As for [`Taken::free`].
    pub(super) unsafe fn free(&self, block: *mut c_void) -> bool {
        if let Some(mut taken) = self.take() {
            // SAFETY: by contract.
            return unsafe { taken.free(block) };
        }
        // SAFETY: by contract.
        if !unsafe { blocks::is_whole(block, self.used()) } {
            return false;
        }
        let left: *mut Left = block.cast();
        let mut next = self.left.load(Ordering::Relaxed);
        loop {
            // SAFETY: the block is free, aligned, and at least as long as its head.
            unsafe { (*left).next = next };
            let order = (Ordering::Release, Ordering::Relaxed);
            match self.left.compare_exchange_weak(next, left, order.0, order.1) {
                Ok(_) => return true,
                Err(other) => next = other,
            }
        }
    }

    /// Begins anew. False if another thread has the arena: then it keeps its memory.
    ///
    /// # Safety
    /// Nobody uses its blocks.
    pub(super) unsafe fn clear(&self) -> bool {
        // Blocks that others have freed are not looked at: they may be damaged.
        self.left.store(ptr::null_mut(), Ordering::Relaxed);
        let order = (Ordering::Acquire, Ordering::Relaxed);
        let dead = self.state.compare_exchange(DEAD, own_number(), order.0, order.1);
        let Some(mut taken) = dead.ok().map(|_| Taken(self)).or_else(|| self.taken()) else {
            return false;
        };
        let blocks = taken.blocks();
        // The old value refers only to memory in the slice.
        *blocks = Blocks { heap: Dlmalloc::new_with_allocator(self.slice), kept: KEPT };
        self.left.store(ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: by contract; the blocks begin anew.
        unsafe { self.slice.clear() };
        true
    }
}
