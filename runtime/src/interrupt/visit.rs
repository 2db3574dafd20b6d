//! One thread's stay in an interpreter, which other threads may interrupt.

use super::{sender, stacks};
use crate::interpreter::Inner;
use crate::payload::Sink;
use crate::payload::table::{Interrupt, Progress};
use crate::thread::reaction_time::ReactionTime;
use hydrozoa_loader::{LeafLock, thread_number};
use std::cell::RefCell;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// A thread that was started begins within this time, if the machine is not busy.
pub(super) const MOMENT: Duration = Duration::from_micros(100);

/// Nobody has interrupted it.
const RUNNING: u8 = 0;
/// An exception is on its way to the thread.
const SENT: u8 = 1;
/// The thread has gone on. An exception that is left for it would hit other code.
const ENDED: u8 = 2;

/// A thread's stay in an interpreter.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) interpreter: Weak<Inner>,
    /// As `threading.get_ident()` names it: `pthread_self` (Python/thread_pthread.h).
    pub(super) thread: u64,
    /// As gettid(2) gives it.
    task: libc::pid_t,
    pub(super) begin: Instant,
    state: AtomicU8,
    /// When it was interrupted first, and from when on its thread can react.
    chance: LeafLock<Option<(Instant, ReactionTime)>>,
    report: LeafLock<Report>,
    stack: LeafLock<Stack>,
    /// Whether a handle has interrupted it.
    interrupted: AtomicBool,
    /// Why it was interrupted last.
    reason: AtomicI32,
    /// Whether its thread runs code in which nothing may be raised.
    held: AtomicBool,
    /// Whether the sender has an exception for it.
    pub(super) on_its_way: AtomicBool,
}

thread_local! {
    /// The calling thread's, which have not ended.
    static OWN: RefCell<Vec<Weak<Visit>>> = const { RefCell::new(Vec::new()) };
}

/// The visit's Python frames, which the next thread that gets the GIL reads.
#[derive(Debug, Default)]
enum Stack {
    #[default]
    Unasked,
    Asked,
    Read(String),
}

/// Whether the visit counts as stuck.
#[derive(Debug, Default)]
enum Report {
    #[default]
    None,
    Stuck,
    Over,
}

impl Visit {
    /// The calling thread's.
    pub(super) fn begin(inner: &Arc<Inner>) -> Arc<Self> {
        // SAFETY: no precondition.
        let (thread, task) = (unsafe { libc::pthread_self() }, thread_number());
        let visit = Arc::new(Self {
            interpreter: Arc::downgrade(inner),
            thread,
            task,
            begin: Instant::now(),
            state: AtomicU8::new(RUNNING),
            chance: LeafLock::default(),
            report: LeafLock::default(),
            stack: LeafLock::default(),
            interrupted: AtomicBool::new(false),
            reason: AtomicI32::new(Interrupt::NONE.0),
            held: AtomicBool::new(false),
            on_its_way: AtomicBool::new(false),
        });
        // While the thread's own destructors run, its visits do not know each other.
        let _ = OWN.try_with(|own| own.borrow_mut().push(Arc::downgrade(&visit)));
        visit
    }

    /// How long it has lasted.
    pub(super) fn age(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Whether no handle has interrupted it before. The clock follows it from then on.
    pub(super) fn is_first_interrupt(&self) -> bool {
        !self.interrupted.swap(true, Ordering::Relaxed)
    }

    pub(super) fn is_over(&self) -> bool {
        self.state.load(Ordering::Acquire) == ENDED
    }

    /// Brings an exception to the thread, or a step further. The caller is attached to `inner`, the visit's interpreter. True
    /// if the thread has it, else it must be tried again, without the GIL in between.
    pub(super) fn send(&self, inner: &Inner, reason: Interrupt, progress: &mut Progress) -> bool {
        // The end of the visit takes the exception back under the GIL, which this thread has.
        let sent = self.state.compare_exchange(RUNNING, SENT, Ordering::AcqRel, Ordering::Acquire);
        if sent.is_ok() {
            // The sender may have come late.
            self.note_chance();
        }
        if sent == Err(ENDED) {
            return true;
        }
        if self.stack.with(|stack| matches!(stack, Stack::Asked))
            && let Some(lines) = stacks::of_attached(inner, self.thread)
        {
            self.stack.with(|stack| *stack = Stack::Read(lines));
        }
        self.reason.store(reason.0, Ordering::Relaxed);
        *progress = set(inner, self.thread, reason, *progress);
        let is_held = *progress == Progress::HELD;
        if self.held.swap(is_held, Ordering::AcqRel) && !is_held {
            self.note_chance();
        }
        *progress == Progress::DONE
    }

    /// Whether its thread could not react yet: nothing may be raised in the code that it runs.
    pub(super) fn is_held(&self) -> bool {
        self.held.load(Ordering::Acquire)
    }

    /// Has the next thread that leaves an exception read the frames.
    pub(super) fn ask_for_stack(&self) {
        self.stack.with(|stack| *stack = Stack::Asked);
    }

    /// The frames, if a thread gets the GIL for them within a moment.
    pub(super) fn stack(&self, most: Duration) -> Option<String> {
        let end = Instant::now() + most;
        loop {
            let read = self.stack.with(|stack| match stack {
                Stack::Read(lines) => Some(std::mem::take(lines)),
                Stack::Unasked | Stack::Asked => None,
            });
            if read.is_some() || Instant::now() >= end {
                return read;
            }
            std::thread::sleep(MOMENT);
        }
    }

    /// The thread can react from now on.
    pub(super) fn note_chance(&self) {
        let chance = ReactionTime::begin(self.task);
        self.chance.with(|place| {
            let first = place.map_or_else(Instant::now, |(first, _)| first);
            *place = Some((first, chance));
        });
    }

    /// How long ago it was interrupted, and for how much of that its thread could react.
    pub(super) fn since_interrupt(&self) -> (Duration, Duration) {
        match self.chance.with(|place| *place) {
            Some((first, chance)) => (first.elapsed(), chance.used()),
            None => (Duration::ZERO, Duration::ZERO),
        }
    }

    /// Whether it counts as stuck.
    pub(super) fn is_stuck(&self) -> bool {
        self.report.with(|report| matches!(report, Report::Stuck))
    }

    /// Whether an exception is on its way to it.
    pub(super) fn is_sent(&self) -> bool {
        self.state.load(Ordering::Acquire) == SENT
    }

    /// Ends it, on its own thread. True if an exception may be on its way, which [`Visit::clear`] takes back.
    pub(super) fn end(&self) -> bool {
        let _ = OWN.try_with(|own| own.borrow_mut().retain(|one| !ptr::eq(one.as_ptr(), self)));
        let sent = self.state.swap(ENDED, Ordering::AcqRel) == SENT;
        let before = self.report.with(|report| std::mem::replace(report, Report::Over));
        if matches!(before, Report::Stuck)
            && let Some(inner) = self.interpreter.upgrade()
        {
            inner.stuck().end();
            inner.leases().wake();
        }
        sent
    }

    /// Takes an exception back that the thread has not raised. It is the calling thread, attached to `inner`. It may have been
    /// that of a visit further out, which gets another one.
    pub(super) fn clear(&self, inner: &Inner) {
        while set(inner, self.thread, Interrupt::NONE, Progress::NEW) != Progress::DONE {
            // A thread that this one has started has not begun. It does without the GIL.
            std::thread::sleep(MOMENT);
        }
        let outer = OWN.try_with(|own| own.borrow().iter().filter_map(Weak::upgrade).collect());
        for visit in outer.unwrap_or_else(|_| Vec::new()) {
            if visit.is_sent() && ptr::eq(visit.interpreter.as_ptr(), inner) {
                sender::send(&visit, Interrupt(visit.reason.load(Ordering::Relaxed)));
            }
        }
    }

    /// Counts it as stuck until it ends. True if it was not counted before and has not ended.
    pub(super) fn note_stuck(&self) -> bool {
        self.report.with(|report| match report {
            Report::None => {
                *report = Report::Stuck;
                if let Some(inner) = self.interpreter.upgrade() {
                    inner.stuck().begin();
                }
                true
            }
            Report::Stuck | Report::Over => false,
        })
    }
}

/// The caller is attached to `inner`.
fn set(inner: &Inner, thread: u64, reason: Interrupt, mut progress: Progress) -> Progress {
    let mut sink = Sink::default();
    // SAFETY: attached; the place is valid.
    let status =
        unsafe { (inner.table().interrupt)(thread, reason, &mut progress, sink.pointer()) };
    match sink.check(status) {
        Ok(()) => progress,
        Err(error) => {
            tracing::warn!(interpreter = inner.name(), %error, "a call could not be interrupted");
            Progress::DONE
        }
    }
}
