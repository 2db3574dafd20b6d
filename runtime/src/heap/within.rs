//! A thread's whereabouts in heaps, for handlers of signals: whether its frames may be discarded, which needs no lock of its own.
//!
//! A thread that finds its block in its own cache is nowhere: it holds nothing. One that uses arenas notes the heap, and one
//! that uses something of the process (malloc, a list of large blocks, the kernel's mappings) notes that.

use super::arena::Arena;
use super::{Heap, stock};
use hydrozoa_loader::DomainId;
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{Ordering, compiler_fence};

thread_local! {
    /// The address of a heap, or one of these.
    static NOW: Cell<usize> = const { Cell::new(NOWHERE) };
}

const NOWHERE: usize = 0;
const PROCESS: usize = 1;

/// While it lives, the thread is noted there.
pub(super) struct Within {
    before: usize,
}

impl Within {
    /// In arenas of a heap.
    #[inline]
    pub(super) fn arenas(heap: &Heap) -> Self {
        Self::begin(ptr::from_ref(heap).expose_provenance())
    }

    /// In something that all interpreters, or the program, may wait for.
    #[inline]
    pub(super) fn process() -> Self {
        Self::begin(PROCESS)
    }

    #[inline]
    fn begin(now: usize) -> Self {
        let before = NOW.replace(now);
        // A handler of the thread's own signals sees the note before anything is taken.
        compiler_fence(Ordering::SeqCst);
        Self { before }
    }
}

impl Drop for Within {
    #[inline]
    fn drop(&mut self) {
        compiler_fence(Ordering::SeqCst);
        NOW.set(self.before);
    }
}

/// Whether the calling thread, in functions of heaps, holds nothing but what belongs to the interpreter in a domain. A handler of
/// signals asks.
pub(crate) fn may_leave(domain: DomainId) -> bool {
    match NOW.get() {
        NOWHERE => true,
        PROCESS => false,
        // SAFETY: a heap is never freed.
        heap => unsafe { &*ptr::with_exposed_provenance::<Heap>(heap) }.is_of(domain),
    }
}

/// The interpreter in a domain has crashed: other threads leave the blocks of its heap alone from now on. A handler of signals
/// calls.
pub(crate) fn note_crash(domain: DomainId) {
    if let Some(heap) = stock::heaps().find(|heap| heap.is_of(domain)) {
        heap.is_left.store(true, Ordering::SeqCst);
        heap.turn.fetch_add(1, Ordering::SeqCst);
    }
}

/// The calling thread has left code of the domain, and does not come back to what it did there.
pub(crate) fn leave(domain: DomainId) {
    NOW.set(NOWHERE);
    if let Some(heap) = stock::heaps().find(|heap| heap.is_of(domain)) {
        heap.arenas.iter().for_each(Arena::abandon);
    }
}

/// A number that the calling thread alone has, as long as it lives: a multiple of 8, and not 0.
#[inline]
pub(super) fn own_number() -> usize {
    NOW.with(|now| ptr::from_ref(now).addr())
}
