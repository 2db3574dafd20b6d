//! Calls that go on although they were interrupted.

use super::visit::Visit;
use super::{GRACE, PAUSE, clock, sender, stacks};
use crate::interpreter::Interpreter;
use crate::panics::contained;
use crate::payload::table::Interrupt;
use crate::thread::Thread;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A call that goes on although it was interrupted, or its deadline has passed: it runs native code, or waits for the
/// GIL that other native code keeps, or it catches the exception.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stuck {
    /// The interpreter's position in its pool, from 0.
    pub index: usize,
    /// The interpreter's name.
    pub interpreter: String,
    /// How long the call has lasted.
    pub lasted: Duration,
    /// The Python frames of the call's thread, the innermost last, in lines such as `File "model.py", line 3 in predict`.
    /// Empty if they could not be read.
    pub stack: String,
}

impl fmt::Display for Stuck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { interpreter, lasted, stack, .. } = self;
        let separator = if stack.is_empty() { "" } else { ":\n" };
        write!(
            formatter,
            "a call in {interpreter} goes on after {lasted:.3?}, although it was interrupted{separator}{stack}"
        )
    }
}

/// How long a call that was reported may go on before its interpreter is replaced. On a busy machine bytecode may react
/// late.
const SECOND_GRACE: Duration = Duration::from_millis(150);

/// How long the GIL is waited for before the stack is read without it, in a child. That takes some 20 ms in a process with
/// torch: the kernel copies the tables of all pages.
const GIL_PATIENCE: Duration = Duration::from_millis(3);

/// How long the GIL is waited for where no child can read the stack, for example since a limit of descriptors is reached.
/// A replacement of the interpreter comes later by as much.
const LAST_PATIENCE: Duration = Duration::from_millis(500);

/// The shortest time between two looks at a thread that waits for a processor.
const SHORTEST: Duration = Duration::from_millis(5);

/// The application's function for stuck calls.
pub(crate) type Listener = Arc<dyn Fn(&Stuck) + Send + Sync>;

/// The reaction to a stuck call.
#[derive(Clone, Default)]
pub(crate) struct OnStuck {
    pub(crate) listener: Option<Listener>,
    /// Puts another interpreter in the place of this one.
    pub(crate) replace: Option<fn(&Interpreter)>,
}

impl fmt::Debug for OnStuck {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut described = formatter.debug_struct("OnStuck");
        described.field("replace", &self.replace.is_some()).finish_non_exhaustive()
    }
}

/// The stuck calls of one interpreter.
#[derive(Debug, Default)]
pub(crate) struct StuckVisits {
    count: AtomicUsize,
    /// Whether what a report of an interrupt needs is imported.
    prepared: AtomicBool,
}

impl StuckVisits {
    pub(super) fn begin(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    pub(super) fn end(&self) {
        self.count.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether there is one.
    pub(crate) fn any(&self) -> bool {
        // Behind a place in the queue of those who wait for an interpreter, and before it at the end of a call.
        self.count.load(Ordering::SeqCst) != 0
    }

    pub(super) fn are_prepared(&self) -> bool {
        self.prepared.load(Ordering::Acquire)
    }

    pub(super) fn note_prepared(&self) {
        self.prepared.store(true, Ordering::Release);
    }
}

/// The visit's deadline has passed.
pub(super) fn late(visit: &Arc<Visit>) {
    if !visit.is_over() {
        visit.note_chance();
        sender::send(visit, Interrupt::DEADLINE);
        clock::add(Instant::now() + GRACE, visit, late_still);
    }
}

/// It goes on.
fn late_still(visit: &Arc<Visit>) {
    again(visit, Interrupt::DEADLINE, late_still);
}

/// The visit goes on although a handle has interrupted it.
pub(super) fn interrupted(visit: &Arc<Visit>) {
    again(visit, Interrupt::HANDLE, interrupted);
}

/// Reports the visit once, and interrupts it again: it may have caught the exception.
fn again(visit: &Arc<Visit>, reason: Interrupt, next: clock::Action) {
    if visit.is_over() {
        return;
    }
    if let Some(more) = starved(visit) {
        clock::add(Instant::now() + more, visit, next);
        return;
    }
    let is_first = visit.note_stuck();
    if is_first {
        visit.ask_for_stack();
    }
    sender::send(visit, reason);
    clock::add(Instant::now() + PAUSE.min(visit.age()), visit, next);
    if is_first {
        let reported = visit.clone();
        // Reading stacks takes a while, and the application's function may take its time.
        match Thread::start("stuck", move || report(&reported)) {
            Ok(thread) => thread.detach(),
            Err(error) => tracing::warn!(%error, "no thread to report a stuck call"),
        }
    }
}

/// How much longer the visit may go on before it counts as stuck: its thread runs code in which nothing may be raised, or the
/// machine is busy, and its thread, or the one that brings it the exception, waits for a processor.
fn starved(visit: &Visit) -> Option<Duration> {
    let (passed, used) = visit.since_interrupt();
    if visit.is_stuck() || passed > PAUSE {
        return None;
    }
    if visit.is_held() {
        return Some(SHORTEST);
    }
    let is_late = || visit.interpreter.upgrade().is_some_and(|inner| inner.sender().is_late());
    if !visit.is_sent() && is_late() {
        return Some(SHORTEST);
    }
    let left = GRACE.saturating_sub(used);
    // The kernel's count may be a tick late.
    (left > SHORTEST).then_some(left)
}

fn report(visit: &Visit) {
    let Some(inner) = visit.interpreter.upgrade() else { return };
    let stack = visit.stack(GIL_PATIENCE).unwrap_or_else(|| match stacks::of(inner.table()) {
        Ok(text) => stacks::of_thread(&text, visit.thread).unwrap_or_default(),
        Err(error) => {
            tracing::warn!(interpreter = inner.name(), %error, "Python stacks cannot be read");
            visit.stack(LAST_PATIENCE).unwrap_or_default()
        }
    });
    let stuck = Stuck {
        index: inner.index(),
        interpreter: inner.name().to_owned(),
        lasted: visit.age(),
        stack,
    };
    tracing::warn!("{stuck}");
    let OnStuck { listener, replace } = inner.on_stuck();
    if let Some(listener) = listener
        && let Err(panic) = contained(|| listener(&stuck))
    {
        tracing::error!(panic, "the function that hears of stuck calls panicked");
    }
    if let Some(replace) = replace {
        thread::sleep(SECOND_GRACE);
        if !visit.is_over() {
            replace(&Interpreter(inner.clone()));
        }
    }
}
