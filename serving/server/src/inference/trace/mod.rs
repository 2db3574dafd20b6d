//! Traces of requests. Without the feature `otel` none are recorded, and this costs nothing.

#[cfg(feature = "otel")]
mod spans;

use axum::http::HeaderMap;
use hydrozoa_models::{Failure, Model, Ticket};
#[cfg(feature = "otel")]
pub(crate) use spans::Tracer;

/// Makes traces, if they are wanted.
#[cfg(not(feature = "otel"))]
#[derive(Default)]
pub(crate) struct Tracer;

/// The trace of a request. One that is dropped before its end was cancelled.
#[cfg_attr(not(feature = "otel"), derive(Default))]
pub(crate) struct Trace {
    #[cfg(feature = "otel")]
    spans: Option<spans::Spans>,
}

#[cfg(not(feature = "otel"))]
impl Tracer {
    pub(crate) fn begin(&self, _headers: &HeaderMap, _protocol: &'static str) -> Trace {
        Trace::default()
    }
}

#[cfg(feature = "otel")]
impl Tracer {
    /// Begins the trace of a request, as a part of the trace in its headers (W3C Trace Context).
    pub(crate) fn begin(&self, headers: &HeaderMap, protocol: &'static str) -> Trace {
        Trace { spans: self.spans(headers, protocol) }
    }
}

#[cfg_attr(
    not(feature = "otel"),
    expect(unused_variables, clippy::unused_self, reason = "nothing is traced")
)]
impl Trace {
    /// The request has come into the queue of this model.
    pub(crate) fn queued(&mut self, model: &Model, id: &str) {
        #[cfg(feature = "otel")]
        if let Some(spans) = &mut self.spans {
            spans.queued(model, id);
        }
    }

    /// The request has got its last response.
    pub(crate) fn end(self, ticket: &Ticket, failure: Option<&Failure>) {
        #[cfg(feature = "otel")]
        if let Some(spans) = self.spans {
            spans.end(ticket.begun(), failure);
        }
    }

    /// The request was refused before it came into a queue.
    pub(crate) fn refuse(self, words: &str) {
        #[cfg(feature = "otel")]
        if let Some(spans) = self.spans {
            spans.refuse(words);
        }
    }
}
