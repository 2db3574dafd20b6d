//! The memory that an interpreter has taken, and the most that it may take.
//!
//! Host and payload count in one place: the heap, which the host manages, as it grows, and the payload pymalloc's arenas.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes beyond the ceiling for the description of an exception to the host.
const RESERVE: usize = 4 << 20;

/// The count of one interpreter's memory.
#[repr(C)]
#[derive(Debug)]
pub struct MemoryLimit {
    /// Bytes that are taken.
    taken: AtomicUsize,
    /// Bytes that may be taken. `usize::MAX`: as many as there are.
    ceiling: AtomicUsize,
}

impl MemoryLimit {
    /// Nothing is taken, and there is no ceiling.
    pub const fn new() -> Self {
        Self { taken: AtomicUsize::new(0), ceiling: AtomicUsize::new(usize::MAX) }
    }

    /// Lets the interpreter have `bytes` from now on, or returns how many it has taken, if those are more.
    pub fn set(&self, bytes: usize) -> Result<(), usize> {
        match self.taken.load(Ordering::Relaxed) {
            taken if taken > bytes => Err(taken),
            _ => {
                self.ceiling.store(bytes, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Whether so many bytes more may be taken. They are counted then.
    pub fn take(&self, bytes: usize) -> bool {
        let before = self.taken.fetch_add(bytes, Ordering::Relaxed);
        let sum = before.checked_add(bytes);
        let may = sum.is_some_and(|sum| sum <= self.ceiling.load(Ordering::Relaxed));
        if !may {
            self.taken.fetch_sub(bytes, Ordering::Relaxed);
        }
        may
    }

    /// Bytes that are taken.
    pub fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    /// Counts so many bytes, which were taken, no more.
    pub fn give_back(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether there is a ceiling.
    pub fn is_set(&self) -> bool {
        self.ceiling.load(Ordering::Relaxed) != usize::MAX
    }

    /// Lets the interpreter take some memory beyond its ceiling, until [`MemoryLimit::lower`].
    pub fn lift(&self) {
        // Without a ceiling there is nothing to lift.
        if self.is_set() {
            self.ceiling.fetch_add(RESERVE, Ordering::Relaxed);
        }
    }

    /// Undoes one [`MemoryLimit::lift`].
    pub fn lower(&self) {
        if self.is_set() {
            self.ceiling.fetch_sub(RESERVE, Ordering::Relaxed);
        }
    }

    /// Begins anew, for another interpreter.
    pub fn reset(&self) {
        self.taken.store(0, Ordering::Relaxed);
        self.ceiling.store(usize::MAX, Ordering::Relaxed);
    }
}

impl Default for MemoryLimit {
    fn default() -> Self {
        Self::new()
    }
}
