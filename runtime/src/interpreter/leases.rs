//! The count of an interpreter's open sessions, and the threads that wait for an interpreter with fewer.

use hydrozoa_loader::{LeafLock, Process};
use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{self, Thread};
use std::time::Instant;

/// Counts an interpreter's sessions.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    open: AtomicUsize,
    /// Whether something was loaded since the count was last zero.
    loaded: AtomicBool,
    queue: OnceLock<Arc<Queue>>,
}

impl Leases {
    /// The number of open sessions: the load by which a pool chooses.
    pub(crate) fn count(&self) -> usize {
        // Behind a place in the queue, see `Queue`.
        self.open.load(Ordering::SeqCst)
    }

    /// One more.
    pub(crate) fn add(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// One more, if nobody has changed the count since `seen` was read.
    pub(crate) fn add_if(&self, seen: usize) -> bool {
        self.open.compare_exchange(seen, seen + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// One less. True if it was the last one after a load: a session around the model's first call ends
    /// after that call, and loading uses sessions of its own inside.
    pub(crate) fn end(&self) -> bool {
        let before = self.open.fetch_sub(1, Ordering::SeqCst);
        if let Some(queue) = self.queue.get()
            && before <= queue.bound()
        {
            queue.wake();
        }
        before == 1 && self.loaded.swap(false, Ordering::Relaxed)
    }

    /// Has the first of those who wait look at the interpreter again: something else about it has changed.
    pub(crate) fn wake(&self) {
        if let Some(queue) = self.queue.get() {
            queue.wake();
        }
    }

    /// Notes that a package's object was loaded, which leaves free pieces all over the heap.
    pub(crate) fn note_load(&self) {
        self.loaded.store(true, Ordering::Relaxed);
    }

    /// Those who wait for interpreters like this one.
    pub(crate) fn queue(&self) -> &Arc<Queue> {
        self.queue.get_or_init(Arc::default)
    }

    /// From now on those in `queue` wait for this interpreter. An interpreter belongs to one queue.
    pub(crate) fn serve(&self, queue: &Arc<Queue>) {
        let _ = self.queue.set(queue.clone());
    }
}

/// Threads that wait for an interpreter with fewer sessions than a bound, first come, first served.
///
/// **Invariant:** while some interpreter has fewer sessions than the bound and no stuck call, the first in the queue looks
/// for one, or was woken since its last look. A thread that brings an interpreter below the bound, or ends its stuck call,
/// lowers the count and then reads `length`. A thread that joins raises `length` and then reads counts. All four are
/// sequentially consistent, so one of the two sees the other. A thread that leaves wakes the next.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    /// How many sessions an interpreter may have by leases that look at others. `None`: one, and not all leases look.
    limit: Option<NonZeroUsize>,
    length: AtomicUsize,
    waiting: LeafLock<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    threads: VecDeque<(u64, Thread)>,
    next: u64,
    /// Whose threads they are: a forked child does not have those of its parent.
    process: u32,
}

/// The calling thread's place in a queue, until this is dropped.
pub(crate) struct QueuePosition<'a> {
    queue: &'a Queue,
    number: u64,
}

impl Queue {
    pub(crate) fn new(limit: Option<NonZeroUsize>) -> Self {
        Self { limit, ..Self::default() }
    }

    /// Whether all leases that have a choice wait for an interpreter below the bound.
    pub(crate) fn is_bounded(&self) -> bool {
        self.limit.is_some()
    }

    /// A waiting thread waits for an interpreter with fewer sessions than this.
    pub(crate) fn bound(&self) -> usize {
        self.limit.map_or(1, NonZeroUsize::get)
    }

    /// Whether nobody waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.first().is_none()
    }

    /// Has the first one look for an interpreter.
    pub(crate) fn wake(&self) {
        if let Some((_, thread)) = self.first() {
            thread.unpark();
        }
    }

    /// Joins the queue at its end.
    pub(crate) fn join(&self) -> QueuePosition<'_> {
        let own = thread::current();
        let number = self.with(|waiting| {
            waiting.next += 1;
            waiting.threads.push_back((waiting.next, own));
            waiting.next
        });
        QueuePosition { queue: self, number }
    }

    fn first(&self) -> Option<(u64, Thread)> {
        // The most frequent case.
        if self.length.load(Ordering::SeqCst) == 0 {
            return None;
        }
        self.with(|waiting| waiting.threads.front().cloned())
    }

    fn with<R>(&self, action: impl FnOnce(&mut Waiting) -> R) -> R {
        let process = Process::current().number();
        self.waiting.with(|waiting| {
            if waiting.process != process {
                waiting.process = process;
                waiting.threads.clear();
            }
            let result = action(waiting);
            self.length.store(waiting.threads.len(), Ordering::SeqCst);
            result
        })
    }
}

impl QueuePosition<'_> {
    /// Whether nobody is before this thread.
    pub(crate) fn is_first(&self) -> bool {
        self.queue.first().is_some_and(|(number, _)| number == self.number)
    }

    /// Waits until it is time to look again, but not beyond `end`. It may return early.
    pub(crate) fn wait(&self, end: Option<Instant>) {
        match end {
            Some(end) => thread::park_timeout(end.saturating_duration_since(Instant::now())),
            None => thread::park(),
        }
    }
}

impl Drop for QueuePosition<'_> {
    fn drop(&mut self) {
        // The handle is dropped outside of the lock.
        let own = self.queue.with(|waiting| {
            let place = waiting.threads.iter().position(|(number, _)| *number == self.number);
            place.and_then(|place| waiting.threads.remove(place))
        });
        drop(own);
        self.queue.wake();
    }
}
