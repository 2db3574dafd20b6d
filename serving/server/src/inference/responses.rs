//! A request in a model's queue, and its responses as they come.

use super::trace::Trace;
use hydrozoa_models::{Chosen, Code, Event, Failure, Model, Request, Response, Ticket};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A request under way. Dropping it cancels the request.
pub(crate) struct Running {
    pub(crate) model: Arc<Model>,
    /// The client's name for the request.
    pub(crate) id: String,
    ticket: Ticket,
    /// `None` when it has ended.
    trace: Option<Trace>,
}

impl Running {
    /// Puts a request into the queue of its model.
    ///
    /// # Errors
    ///
    /// As [`Chosen::infer`].
    pub(crate) fn begin(
        chosen: Chosen,
        request: Request,
        mut trace: Trace,
        respond: impl FnMut(Event) + Send + 'static,
    ) -> Result<Self, Failure> {
        let id = request.id.clone();
        let (model, ticket) = chosen.infer(request, respond)?;
        trace.queued(&model, &id);
        Ok(Self { model, id, ticket, trace: Some(trace) })
    }

    /// It has got its last response.
    pub(crate) fn end(&mut self, failure: Option<&Failure>) {
        if let Some(trace) = self.trace.take() {
            trace.end(&self.ticket, failure);
        }
    }
}

/// The responses of a request under way.
pub(crate) struct Responses {
    pub(crate) running: Running,
    events: UnboundedReceiver<Event>,
    /// Bytes of responses that nobody has taken, and how many there may be before a further one.
    waiting: Arc<AtomicUsize>,
    most: usize,
    is_over: bool,
    /// The last error.
    failure: Option<Failure>,
}

impl Responses {
    /// As [`Running::begin`]. The request is cancelled if more than `most` bytes of its responses wait to be taken.
    pub(crate) fn begin(
        chosen: Chosen,
        request: Request,
        trace: Trace,
        most: usize,
    ) -> Result<Self, Failure> {
        let (sender, events) = unbounded_channel();
        let waiting = Arc::new(AtomicUsize::new(0));
        let (mut sender, added) = (Some(sender), waiting.clone());
        let respond = move |event: Event| {
            let before = added.fetch_add(size(&event), Ordering::Relaxed);
            let fits = event.response.is_none() || before <= most;
            // A channel that ends before its last event shows that the limit was exceeded. Nobody may wait any more.
            sender = sender.take().filter(|channel| fits && channel.send(event).is_ok());
        };
        let running = Running::begin(chosen, request, trace, respond)?;
        Ok(Self { running, events, waiting, most, is_over: false, failure: None })
    }

    /// The next response; `None` after the last one.
    pub(crate) async fn next(&mut self) -> Option<Result<Response, Failure>> {
        poll_fn(|context| self.poll(context)).await
    }

    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Response, Failure>>> {
        while !self.is_over {
            let Some(event) = ready!(self.events.poll_recv(context)) else {
                self.is_over = true;
                let words = format!(
                    "the request was cancelled: more than {} bytes of responses wait to be read",
                    self.most
                );
                return Poll::Ready(Some(Err(Failure::new(Code::Cancelled, words))));
            };
            self.waiting.fetch_sub(size(&event), Ordering::Relaxed);
            if let Some(response) = &event.response {
                self.failure = response.as_ref().err().cloned();
            }
            if event.is_final {
                self.is_over = true;
                self.running.end(self.failure.as_ref());
            }
            if event.response.is_some() {
                return Poll::Ready(event.response);
            }
        }
        Poll::Ready(None)
    }

    /// The response, if the request has exactly one; `other` is the failure if it has another number. Then the request is over, or
    /// should be dropped.
    pub(crate) async fn single(
        &mut self,
        other: impl FnOnce(usize) -> Failure,
    ) -> Result<Response, Failure> {
        let mut single = Single::default();
        while !single.is_decided()
            && let Some(response) = self.next().await
        {
            single.add(response);
        }
        let outcome = single.end(other);
        if let Err(failure) = &outcome {
            self.running.end(Some(failure));
        }
        outcome
    }
}

/// The response of a request that must have exactly one, whatever the protocol. An error is the response, whatever came before it.
#[derive(Default)]
pub(crate) struct Single {
    response: Option<Result<Response, Failure>>,
    count: usize,
}

impl Single {
    pub(crate) fn add(&mut self, response: Result<Response, Failure>) {
        self.count += 1;
        if self.response.as_ref().is_none_or(|former| former.is_ok() && response.is_err()) {
            self.response = Some(response);
        }
    }

    /// Whether further responses change nothing.
    fn is_decided(&self) -> bool {
        self.count > 1 || matches!(self.response, Some(Err(_)))
    }

    pub(crate) fn end(self, other: impl FnOnce(usize) -> Failure) -> Result<Response, Failure> {
        match self.response {
            Some(response) if self.count == 1 || response.is_err() => response,
            _ => Err(other(self.count)),
        }
    }
}

/// The failure of a usual model that has given so many responses, in Triton's words.
pub(crate) fn expected_one(count: usize) -> Failure {
    Failure::new(Code::Internal, format!("expected a single response, got {count}"))
}

fn size(event: &Event) -> usize {
    match &event.response {
        Some(Ok(response)) => response.outputs.iter().map(|output| output.data.len()).sum(),
        Some(Err(failure)) => failure.message.len(),
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::{Single, expected_one};
    use hydrozoa_models::{Code, Failure, Response};

    #[test]
    fn one_response_or_the_first_error_is_the_outcome() {
        let failed = |words: &str| Err(Failure::new(Code::Internal, words));
        let fine = || Ok(Response::default());
        for (responses, expected) in [
            (vec![], Some("expected a single response, got 0")),
            (vec![fine()], None),
            (vec![fine(), fine()], Some("expected a single response, got 2")),
            (vec![failed("a")], Some("a")),
            (vec![fine(), failed("a")], Some("a")),
            (vec![failed("a"), fine()], Some("a")),
            (vec![failed("a"), failed("b")], Some("a")),
        ] {
            let mut single = Single::default();
            responses.into_iter().for_each(|response| single.add(response));
            let found = single.end(expected_one).err().map(|failure| failure.message);
            assert_eq!(found.as_deref(), expected);
        }
    }
}
