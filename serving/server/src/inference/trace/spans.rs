//! Spans of OpenTelemetry: one for a request, and in it one for the queue and one for the model.

use axum::http::HeaderMap;
use hydrozoa_models::{Failure, Model};
use opentelemetry::global::{BoxedSpan, BoxedTracer};
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{Span, SpanKind, Status, TraceContextExt, Tracer as _};
use opentelemetry::{Context, KeyValue, global};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// Makes spans by the process's tracer provider of the time at which this is made.
pub(crate) struct Tracer(Arc<BoxedTracer>);

impl Default for Tracer {
    fn default() -> Self {
        Self(Arc::new(global::tracer("hydrozoa-server")))
    }
}

/// The spans of a request that is traced.
pub(super) struct Spans {
    tracer: Arc<BoxedTracer>,
    /// Holds the span of the request.
    context: Context,
    queued: Option<Instant>,
    has_ended: bool,
}

/// Headers as the propagator reads them.
struct Carrier<'a>(&'a HeaderMap);

impl Extractor for Carrier<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.to_str().ok()
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(|name| name.as_str()).collect()
    }
}

impl Tracer {
    pub(super) fn spans(&self, headers: &HeaderMap, protocol: &'static str) -> Option<Spans> {
        let tracer = self.0.clone();
        let parent =
            TraceContextPropagator::new().extract_with_context(&Context::new(), &Carrier(headers));
        let builder = tracer.span_builder("request").with_kind(SpanKind::Server);
        let attributes = [KeyValue::new("network.protocol.name", protocol)];
        let span = builder.with_attributes(attributes).start_with_context(&*tracer, &parent);
        // Without a provider, or if the sampler does not want it, there is nothing to note.
        span.is_recording().then(|| Spans {
            context: parent.with_span(span),
            tracer,
            queued: None,
            has_ended: false,
        })
    }
}

impl Spans {
    pub(super) fn queued(&mut self, model: &Model, id: &str) {
        self.queued = Some(Instant::now());
        let span = self.context.span();
        span.set_attribute(KeyValue::new("model.name", model.config().name().to_owned()));
        span.set_attribute(KeyValue::new("model.version", model.version()));
        if !id.is_empty() {
            span.set_attribute(KeyValue::new("request.id", id.to_owned()));
        }
    }

    pub(super) fn end(mut self, begun: Option<Instant>, failure: Option<&Failure>) {
        let now = Instant::now();
        let queued = self.queued.unwrap_or(now);
        self.part("queue", queued, begun.unwrap_or(now).max(queued));
        if let Some(begun) = begun {
            self.part("compute", begun.max(queued), now);
        }
        let status = match failure {
            Some(failure) => Status::error(failure.message.clone()),
            None => Status::Ok,
        };
        self.finish(status);
    }

    pub(super) fn refuse(mut self, words: &str) {
        self.finish(Status::error(words.to_owned()));
    }

    fn finish(&mut self, status: Status) {
        self.has_ended = true;
        self.context.span().set_status(status);
        self.context.span().end();
    }

    /// A part of the request that is over.
    fn part(&self, name: &'static str, from: Instant, to: Instant) {
        // The clocks are read together: spans have times of day.
        let (now, today) = (Instant::now(), SystemTime::now());
        let at = |moment: Instant| today - now.saturating_duration_since(moment);
        let builder = self.tracer.span_builder(name).with_kind(SpanKind::Internal);
        let builder = builder.with_start_time(at(from));
        let mut span: BoxedSpan = builder.start_with_context(&*self.tracer, &self.context);
        span.end_with_timestamp(at(to));
    }
}

impl Drop for Spans {
    fn drop(&mut self) {
        if !self.has_ended {
            self.finish(Status::error("the request was cancelled"));
        }
    }
}
