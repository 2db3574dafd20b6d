//! Visits to an interpreter, and moments without any.
//!
//! A thread that enters the interpreter from outside is counted until it has left, even while it has released the GIL. Settling
//! ([`crate::settled_pages`]) needs a moment in which no thread is inside and none enters, not even up to the wait for the GIL: in
//! CPython a thread that enters writes its own state, and that of the thread that holds the GIL, before it has the GIL.

use hydrozoa_loader::Process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// The parts of the word: how many are inside, a bit that is set while nobody may enter, and the number of visits that have ended.
/// That one wraps into nothing.
const CLOSED: usize = 1 << 23;
const INSIDE: usize = CLOSED - 1;
const ENDED: usize = CLOSED << 1;

/// How long a thread sleeps before it looks again whether it may enter. It takes no lock, so a fork disturbs nobody.
const PAUSE: Duration = Duration::from_micros(200);

/// The count.
#[derive(Debug)]
pub(crate) struct Visitors {
    state: AtomicUsize,
    /// Whose threads are counted.
    process: Process,
}

/// A thread is inside until this is dropped.
pub(super) struct Visitor<'a>(&'a Visitors);

impl Drop for Visitor<'_> {
    fn drop(&mut self) {
        self.0.state.fetch_add(ENDED - 1, Ordering::Release);
    }
}

/// Nobody enters until this is dropped.
#[must_use]
pub(crate) struct Closed<'a>(&'a Visitors);

impl Visitors {
    pub(super) fn new() -> Self {
        Self { state: AtomicUsize::new(0), process: Process::current() }
    }

    /// Counts the calling thread, once it may enter. One that `holds` the GIL does not wait, and is not counted while nobody
    /// may enter.
    pub(super) fn enter(&self, holds: impl Fn() -> bool) -> Option<Visitor<'_>> {
        loop {
            let before = self.state.fetch_add(1, Ordering::Acquire);
            let visitor = Visitor(self);
            if before & CLOSED == 0 {
                return Some(visitor);
            }
            drop(visitor);
            if holds() {
                return None;
            }
            self.wait();
        }
    }

    /// Has the calling thread, which is counted, leave for the time of `action`. Its code of the interpreter's neither runs meanwhile nor holds the
    /// GIL.
    #[cfg(feature = "async")]
    pub(super) fn without<R>(&self, action: impl FnOnce() -> R) -> R {
        struct Back<'a>(&'a Visitors);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                // The count goes back to the thread's visitor.
                std::mem::forget(self.0.enter(|| false));
            }
        }
        let _back = Back(self);
        drop(Visitor(self));
        action()
    }

    #[cold]
    fn wait(&self) {
        while self.state.load(Ordering::Acquire) & CLOSED != 0 {
            if self.is_childs() {
                // The parent's thread that would open it is not in this process.
                self.state.fetch_and(!CLOSED, Ordering::Release);
            } else {
                thread::sleep(PAUSE);
            }
        }
    }

    /// Whether this is a forked child, which has counts of threads that it does not have.
    pub(crate) fn is_childs(&self) -> bool {
        !self.process.is_current()
    }

    /// How many are inside.
    pub(crate) fn count(&self) -> usize {
        self.state.load(Ordering::Acquire) & INSIDE
    }

    /// The number of visits that have ended, if nobody is inside. It wraps.
    pub(crate) fn ended(&self) -> Option<usize> {
        let state = self.state.load(Ordering::Acquire);
        (state & INSIDE == 0).then_some(state / ENDED)
    }

    /// Keeps everybody outside, or returns how many are inside. One thread at a time may ask.
    pub(crate) fn close(&self) -> Result<Closed<'_>, usize> {
        let close = |state| (state & (INSIDE | CLOSED) == 0).then_some(state | CLOSED);
        match self.state.fetch_update(Ordering::Acquire, Ordering::Relaxed, close) {
            Ok(_) => Ok(Closed(self)),
            Err(state) => Err(state & INSIDE),
        }
    }
}

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.state.fetch_and(!CLOSED, Ordering::Release);
    }
}
