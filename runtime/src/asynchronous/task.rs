//! The future of a coroutine's result.

use super::Shared;
use crate::session::Session;
use crate::{Error, Result};
use hydrozoa_loader::LeafLock;
use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};

/// A coroutine that runs on an [`EventLoop`](super::EventLoop), as a future of its result.
///
/// The drop of a task whose coroutine runs cancels it, as `asyncio.Task.cancel` does: `await` raises `CancelledError` in the
/// coroutine, and its `finally:` blocks run. The drop waits for nothing, and so does a poll.
///
/// It works in every executor. Do not block the loop's own thread with it: code that runs on that thread and waits for a task
/// of the same loop waits for ever.
#[must_use = "the drop of a task cancels its coroutine"]
pub struct Task<T> {
    /// `None` when the result was given.
    receiver: Option<Arc<Slot<T>>>,
    events: Arc<Shared>,
    number: u64,
    /// Ends with the coroutine, or with this.
    lease: Option<Session>,
}

/// Where a result comes.
pub(super) struct Slot<T>(LeafLock<PendingResult<T>>);

enum PendingResult<T> {
    /// With the last one who asked.
    Pending(Option<Waker>),
    Ready(Result<T>),
    /// The result was given.
    Given,
}

/// Puts a result into its place. If this is dropped before, the interpreter has ended.
pub(super) struct Sender<T> {
    /// Empty when the result was sent, or when nobody waits for it.
    slot: Weak<Slot<T>>,
    /// The name of the interpreter.
    interpreter: Arc<str>,
}

/// A place for one result, and who fills it.
pub(super) fn channel<T>(interpreter: Arc<str>) -> (Sender<T>, Arc<Slot<T>>) {
    let slot = Arc::new(Slot(LeafLock::new(PendingResult::Pending(None))));
    (Sender { slot: Arc::downgrade(&slot), interpreter }, slot)
}

impl<T> Sender<T> {
    /// Whether a result was not sent yet, and somebody waits for it.
    pub(super) fn is_wanted(&self) -> bool {
        self.slot.strong_count() != 0
    }

    /// The first result counts.
    pub(super) fn send(&mut self, result: Result<T>) {
        let Some(slot) = mem::take(&mut self.slot).upgrade() else { return };
        let before = slot.0.with(|state| mem::replace(state, PendingResult::Ready(result)));
        if let PendingResult::Pending(Some(waker)) = before {
            waker.wake();
        }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.is_wanted() {
            let interpreter = self.interpreter.to_string();
            self.send(Err(Error::Ended { interpreter }));
        }
    }
}

impl<T> Task<T> {
    pub(super) fn new(receiver: Arc<Slot<T>>, events: Arc<Shared>, number: u64) -> Self {
        Self { receiver: Some(receiver), events, number, lease: None }
    }

    /// The same. It keeps the session until it has ended.
    pub(super) fn leased(self, session: Session) -> Self {
        let mut task = self;
        task.lease = Some(session);
        task
    }

    /// Whether the result is there, so that a poll gives it.
    pub fn is_finished(&self) -> bool {
        let is_pending =
            |slot: &Arc<Slot<T>>| slot.0.with(|state| matches!(state, PendingResult::Pending(_)));
        !self.receiver.as_ref().is_some_and(is_pending)
    }
}

impl<T> Future for Task<T> {
    type Output = Result<T>;

    /// # Panics
    ///
    /// If the result was given before.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let slot = self.receiver.as_ref().expect("a task is not polled after its result");
        // Wakers are cloned and dropped outside of the lock.
        let mut waker = Some(context.waker().clone());
        let before = slot.0.with(|state| match state {
            PendingResult::Pending(former) => {
                PendingResult::Pending(mem::replace(former, waker.take()))
            }
            _ => mem::replace(state, PendingResult::Given),
        });
        let PendingResult::Ready(result) = before else { return Poll::Pending };
        self.receiver = None;
        self.lease = None;
        Poll::Ready(result)
    }
}

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        if !self.is_finished() {
            // The job sees then that nobody waits.
            self.receiver = None;
            self.events.cancel(self.number);
        }
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.is_finished() { "finished" } else { "running" };
        write!(formatter, "<a {state} task of {}>", self.events.interpreter)
    }
}
