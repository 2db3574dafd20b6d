//! Interrupts and deadlines of calls, and calls that do not react to them.
//!
//! | file | is |
//! |---|---|
//! | `visit` | one thread's stay in an interpreter, and the exception that is left for it |
//! | `sender` | exceptions that wait for an interpreter's GIL, and for the right moment of a thread |
//! | `clock` | the thread that knows when deadlines pass |
//! | `stuck` | calls that go on although they were interrupted |
//! | `stacks` | Python stacks without the GIL |

mod clock;
mod sender;
mod stacks;
mod stuck;
mod visit;

pub(crate) use sender::Sender;
pub use stuck::Stuck;
pub(crate) use stuck::{OnStuck, StuckVisits};

use crate::interpreter::{Inner, Interpreter};
use crate::payload::Sink;
use crate::payload::table::Interrupt;
use crate::{Error, Result};
use hydrozoa_loader::LeafLock;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::{Duration, Instant};
use visit::Visit;

/// How long a call may go on after it was interrupted before it counts as [`Stuck`]. Bytecode reacts within the switch
/// interval of the GIL, 5 ms (`sys.getswitchinterval`). Time that its thread waits for a processor does not count, up to
/// [`PAUSE`].
const GRACE: Duration = Duration::from_millis(30);

/// The longest pause between two exceptions for a call that has caught the first, or that runs native code.
const PAUSE: Duration = Duration::from_secs(1);

/// Interrupts the calls of one session, from any thread.
///
/// It may outlive the session, and then interrupts nothing.
#[derive(Clone, Debug)]
pub struct InterruptHandle(Arc<Watch>);

/// The calls of one session that run.
#[derive(Debug, Default)]
pub(crate) struct Watch(LeafLock<Vec<Arc<Visit>>>);

impl InterruptHandle {
    /// Raises `_hydrozoa.interrupts.Interrupted` in the Python code that calls of the session run now, on every thread
    /// that is inside one. True if there was such a call.
    ///
    /// The exception is a `KeyboardInterrupt`, which `except Exception` does not catch. Python code raises it between two
    /// instructions of bytecode, typically within 10 ms. The call then returns [`Error::Interrupted`](crate::Error::Interrupted).
    /// Code that catches the exception goes on, and gets another one after a while.
    ///
    /// The exception waits while Python's own code takes or gives back a lock, in `__enter__` and `__exit__`, or in a finalizer,
    /// which would swallow it. After a second it is raised there too, but never in importlib.
    ///
    /// Native code (a C function that waits or computes) is not interrupted: the exception is raised when it returns. A
    /// call that goes on for 30 ms counts as [`Stuck`]. This excludes, up to a second, the time that its thread waits for a
    /// processor on a busy machine or runs code in which nothing is raised. If the thread has left for another interpreter,
    /// the exception is raised when it comes back.
    ///
    /// This does not wait for the GIL.
    pub fn interrupt(&self) -> bool {
        let visits = self.0.0.with(|visits| visits.clone());
        for visit in &visits {
            let is_first = visit.is_first_interrupt();
            if is_first {
                visit.note_chance();
            }
            sender::send(visit, Interrupt::HANDLE);
            if is_first {
                clock::add(Instant::now() + GRACE, visit, stuck::interrupted);
            }
        }
        !visits.is_empty()
    }
}

/// A thread inside of a call that is watched, under the GIL.
pub(crate) struct Watched<'a> {
    inner: &'a Inner,
    watch: &'a Watch,
    visit: Arc<Visit>,
}

impl Watch {
    /// The calling thread is attached to `inner` until after the result is dropped.
    pub(crate) fn enter<'a>(&'a self, inner: &'a Arc<Inner>) -> Watched<'a> {
        let visit = Visit::begin(inner);
        self.0.with(|visits| visits.push(visit.clone()));
        Watched { inner, watch: self, visit }
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let own = self.watch.0.with(|visits| {
            let place = visits.iter().position(|visit| Arc::ptr_eq(visit, &self.visit))?;
            Some(visits.swap_remove(place))
        });
        drop(own);
        if self.visit.end() {
            self.visit.clear(self.inner);
        }
    }
}

thread_local! {
    /// How many deadlines the calling thread has.
    static COUNT: Cell<usize> = const { Cell::new(0) };

    /// The calling thread's deadlines. The innermost is the last.
    static LIMITS: RefCell<Vec<Limit>> = const { RefCell::new(Vec::new()) };
}

/// A deadline, and its interpreter.
struct Limit {
    /// The address of the interpreter.
    of: usize,
    end: Instant,
    /// Whether something has begun under it.
    begun: bool,
}

/// Refuses to begin a call on `inner` on a thread whose deadline has passed before anything has begun under it, for
/// example during a wait for the GIL.
///
/// # Errors
///
/// [`Error::Deadline`] without a traceback.
#[inline]
pub(crate) fn begin(inner: &Arc<Inner>) -> Result<()> {
    match COUNT.get() {
        0 => Ok(()),
        _ => begin_in_time(inner),
    }
}

fn begin_in_time(inner: &Arc<Inner>) -> Result<()> {
    // While the thread's own destructors run, it has no deadline.
    let is_late = LIMITS.try_with(|limits| {
        let (of, mut limits) = (Arc::as_ptr(inner).addr(), limits.borrow_mut());
        let mut limits = limits.iter_mut().rev().filter(|limit| limit.of == of && !limit.begun);
        limits.any(|limit| {
            let is_late = Instant::now() >= limit.end;
            limit.begun = !is_late;
            is_late
        })
    });
    if is_late.unwrap_or(false) {
        return Err(Error::Deadline { traceback: String::new() });
    }
    Ok(())
}

/// A deadline of the calling thread.
struct Deadline<'a> {
    inner: &'a Arc<Inner>,
    visit: Arc<Visit>,
    key: clock::Key,
}

impl Drop for Deadline<'_> {
    fn drop(&mut self) {
        clock::remove(self.key);
        COUNT.set(COUNT.get() - 1);
        let _ = LIMITS.try_with(|limits| limits.borrow_mut().pop());
        if self.visit.end() {
            let _attached = self.inner.attach();
            self.visit.clear(self.inner);
        }
    }
}

/// A handle for the calls that are noted in `watch`, on `inner`.
pub(crate) fn handle(inner: &Arc<Inner>, watch: &Arc<Watch>) -> InterruptHandle {
    prepare(inner);
    InterruptHandle(watch.clone())
}

/// Calls `action`, and interrupts the code that it runs on this thread in `inner` when `limit` has passed.
pub(crate) fn with_deadline<R>(
    inner: &Arc<Inner>,
    limit: Duration,
    action: impl FnOnce() -> R,
) -> R {
    let begin = Instant::now();
    // Not under the deadline: it imports modules, and a thread that waits for an import that fails has half a module
    // (`import_ensure_initialized` in Python/import.c).
    prepare(inner);
    let visit = Visit::begin(inner);
    // Too far away for the clock is never.
    let Some(end) = begin.checked_add(limit) else { return action() };
    let key = clock::add(end, &visit, stuck::late);
    let limit = Limit { of: Arc::as_ptr(inner).addr(), end, begun: false };
    // While the thread's own destructors run, the clock alone has it.
    let _ = LIMITS.try_with(|limits| limits.borrow_mut().push(limit));
    COUNT.set(COUNT.get() + 1);
    let _deadline = Deadline { inner, visit, key };
    action()
}

impl Interpreter {
    /// The Python stacks of its threads, as `faulthandler` writes them. It takes no GIL and waits for nothing, so it works
    /// while a thread keeps the GIL. Threads that run meanwhile may be shown wrong or not at all.
    ///
    /// Empty where the file descriptor 2 of this process's copy is not available.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] if the system gives no memory file or no process.
    pub fn stacks(&self) -> Result<String> {
        stacks::of(self.0.table())
            .map_err(|source| Error::Io { path: "a copy of the stacks".into(), source })
    }

    /// Whether one of its calls goes on although it was interrupted. A pool leases such an interpreter last.
    pub fn is_stuck(&self) -> bool {
        self.0.stuck().any()
    }
}

/// Imports what a report of an interrupt needs.
fn prepare(inner: &Arc<Inner>) {
    if inner.stuck().are_prepared() {
        return;
    }
    let _attached = inner.attach();
    let mut sink = Sink::default();
    // SAFETY: attached.
    let status = unsafe { (inner.table().prepare_interrupts)(sink.pointer()) };
    match sink.check(status) {
        Ok(()) => inner.stuck().note_prepared(),
        Err(error) => {
            tracing::warn!(interpreter = inner.name(), %error, "an interrupt cannot be prepared");
        }
    }
}
