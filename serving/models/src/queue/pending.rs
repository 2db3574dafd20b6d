//! A request that has no final response yet.

use crate::figures::{Counters, Ended};
use crate::host::Respond;
use crate::request::{Code, Event, Failure, Response};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Whether the client of another server's request has gone.
pub(crate) type Gone = Box<dyn Fn() -> bool + Send>;

/// The process that a server runs in.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process(hydrozoa_loader::Process);

impl Process {
    pub(crate) fn this() -> Self {
        Self(hydrozoa_loader::Process::current())
    }

    /// Refuses in a child that a model has forked. It has the memory of the server and none of its threads, so it would
    /// wait for an answer, or for a lock, for ever.
    pub(crate) fn check(self) -> Result<(), String> {
        if self.0.is_current() {
            return Ok(());
        }
        Err("a forked child of a model has no server: the model itself must call it".to_owned())
    }
}

/// A request that has no final response yet. If it is dropped before, its client gets an error.
pub(crate) struct Pending {
    state: Mutex<PendingReply>,
    is_cancelled: AtomicBool,
    is_decoupled: bool,
    process: Process,
    begun: Begun,
    /// Counts how it ends; `None` if another server does.
    counted: Option<Counted>,
}

/// Where a request is counted, and how many places of a batch it takes.
struct Counted {
    counters: Arc<Counters>,
    size: usize,
    since: Instant,
}

/// When an instance has taken a request. It is known longer than the request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Begun(Arc<OnceLock<Instant>>);

impl Begun {
    pub(crate) fn at(&self) -> Option<Instant> {
        self.0.get().copied()
    }
}

struct PendingReply {
    /// `None` after the final event.
    respond: Option<Respond>,
    /// Responses so far.
    count: usize,
    /// Another server's word on whether the client has gone. It is dropped with the final event.
    gone: Option<Gone>,
}

impl Pending {
    pub(crate) fn new(respond: Respond, is_decoupled: bool) -> Self {
        let state = Mutex::new(PendingReply { respond: Some(respond), count: 0, gone: None });
        let process = Process::this();
        let is_cancelled = AtomicBool::new(false);
        let begun = Begun::default();
        Self { state, is_cancelled, is_decoupled, process, begun, counted: None }
    }

    /// One of this size, whose end is counted.
    pub(crate) fn counted(
        respond: Respond,
        is_decoupled: bool,
        counters: &Arc<Counters>,
        size: usize,
    ) -> Self {
        let mut pending = Self::new(respond, is_decoupled);
        let counters = counters.clone();
        pending.counted = Some(Counted { counters, size, since: Instant::now() });
        pending
    }

    /// One whose client another server knows.
    pub(crate) fn with_gone(respond: Respond, is_decoupled: bool, gone: Gone) -> Self {
        let pending = Self::new(respond, is_decoupled);
        pending.state.lock().gone = Some(gone);
        pending
    }

    /// An instance takes it.
    pub(crate) fn begin(&self, now: Instant) {
        // It is taken once.
        let _ = self.begun.0.set(now);
    }

    /// When an instance has taken it.
    pub(crate) fn begun(&self) -> Begun {
        self.begun.clone()
    }

    /// Gives its client back, for another model.
    pub(crate) fn release(&self) -> Option<Respond> {
        self.state.lock().respond.take()
    }

    /// Counts its end.
    fn count(&self, last: Option<&Result<Response, Failure>>) {
        let Some(Counted { counters, size, since }) = &self.counted else { return };
        let ended = match last {
            Some(Err(failure)) => Ended::of(failure.code, self.begun.at().is_some()),
            _ => Ended::Success,
        };
        counters.ended(*size, ended, since.elapsed());
    }

    /// Tells the model that nobody waits any more.
    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Relaxed)
            || self.state.lock().gone.as_ref().is_some_and(|gone| gone())
    }

    /// Gives a response, or says that there is no more. The rules and their words are those of Triton's Python backend.
    pub(crate) fn send(
        &self,
        response: Option<Result<Response, Failure>>,
        is_final: bool,
    ) -> Result<(), String> {
        self.process.check()?;
        let mut state = self.state.lock();
        if state.respond.is_none() {
            return Err("Response sender has been closed.".to_owned());
        }
        if !self.is_decoupled {
            match (&response, state.count) {
                (Some(_), 1..) => {
                    return Err(
                        "Non-decoupled model cannot send more than one response.".to_owned()
                    );
                }
                (None, 0) => {
                    return Err(
                        "Non-decoupled model cannot send complete final before sending a response."
                            .to_owned(),
                    );
                }
                _ => {}
            }
        }
        state.count += usize::from(response.is_some());
        let mut respond = state.respond.take().expect("it was there just now");
        if is_final {
            self.count(response.as_ref());
        }
        respond(Event { response, is_final });
        if is_final {
            state.gone = None;
        } else {
            state.respond = Some(respond);
        }
        Ok(())
    }

    /// Ends it with an error, if it has not ended.
    pub(crate) fn fail(&self, failure: Failure) {
        if self.process.check().is_err() {
            return;
        }
        let (respond, _gone) = {
            let mut state = self.state.lock();
            (state.respond.take(), state.gone.take())
        };
        if let Some(mut respond) = respond {
            let response = Some(Err(failure));
            self.count(response.as_ref());
            respond(Event { response, is_final: true });
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.state.lock().respond.is_none()
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.fail(Failure::new(
            Code::Internal,
            "the model has let go of the request without a final response",
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::Pending;
    use crate::request::{Code, Failure};
    use crate::request::{Event, Response};
    use std::sync::mpsc::{Receiver, channel};

    fn pending(is_decoupled: bool) -> (Pending, Receiver<Event>) {
        let (sender, events) = channel();
        (Pending::new(Box::new(move |event| sender.send(event).unwrap()), is_decoupled), events)
    }

    fn some() -> Option<Result<Response, Failure>> {
        Some(Ok(Response::default()))
    }

    #[test]
    fn a_usual_model_sends_one_response() {
        let (pending, events) = pending(false);
        assert!(pending.send(None, true).unwrap_err().contains("before sending a response"));
        pending.send(some(), false).unwrap();
        assert!(pending.send(some(), true).unwrap_err().contains("more than one"));
        pending.send(None, true).unwrap();
        assert!(pending.send(None, true).unwrap_err().contains("closed"));
        let finals: Vec<bool> = events.try_iter().map(|event| event.is_final).collect();
        assert_eq!(finals, [false, true]);
    }

    #[test]
    fn a_decoupled_model_sends_any_number() {
        for count in [0, 1, 5] {
            let (pending, events) = pending(true);
            (0..count).for_each(|_| pending.send(some(), false).unwrap());
            pending.send(None, true).unwrap();
            drop(pending);
            assert_eq!(events.try_iter().filter(|event| event.response.is_some()).count(), count);
        }
    }

    #[test]
    fn a_request_that_is_forgotten_fails() {
        let (pending, events) = pending(true);
        pending.send(some(), false).unwrap();
        drop(pending);
        let last = events.try_iter().last().unwrap();
        assert_eq!(last.response.unwrap().unwrap_err().code, Code::Internal);
        assert!(last.is_final);
    }
}
