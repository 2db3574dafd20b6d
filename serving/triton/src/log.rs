//! Log entries of this process's interpreters, its models and this library go to the server's log.

use crate::sys::core;
use std::ffi::{CString, c_int};
use std::fmt::{Debug, Write};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Sends everything from now on. The library has `tracing` for itself, so nobody else's log changes.
pub(crate) fn begin() {
    // It fails if the backend is initialized again under another name, and then it is there.
    let _ = tracing::subscriber::set_global_default(ServerLog);
}

struct ServerLog;

/// `TRITONSERVER_LogLevel`
fn number(level: Level) -> c_int {
    match level {
        Level::INFO => 0,
        Level::WARN => 1,
        Level::ERROR => 2,
        Level::DEBUG | Level::TRACE => 3,
    }
}

/// The words of an event, with its fields behind them.
#[derive(Default)]
struct Words {
    message: String,
    model: String,
    fields: String,
}

impl Visit for Words {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => self.message.push_str(value),
            "model" => self.model.push_str(value),
            name => drop(write!(self.fields, " {name}={value}")),
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        match field.name() {
            "message" => drop(write!(self.message, "{value:?}")),
            "model" => drop(write!(self.model, "{value:?}")),
            name => drop(write!(self.fields, " {name}={value:?}")),
        }
    }
}

impl Subscriber for ServerLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        // SAFETY: it takes a number.
        metadata.is_event()
            && unsafe { (core().TRITONSERVER_LogIsEnabled)(number(*metadata.level())) }
    }

    fn register_callsite(&self, _: &'static Metadata<'static>) -> tracing::subscriber::Interest {
        // The server's level may change at any time.
        tracing::subscriber::Interest::sometimes()
    }

    fn event(&self, event: &Event<'_>) {
        let mut words = Words::default();
        event.record(&mut words);
        let metadata = event.metadata();
        // The server prints a place in front: the model's, if it is about one.
        let (place, line) = match words.model.is_empty() {
            true => (metadata.file().unwrap_or("hydrozoa"), metadata.line().unwrap_or_default()),
            false => (&*words.model, 0),
        };
        let text = |text: &str| CString::new(text.replace('\0', "\\0")).expect("it has no NUL");
        let (place, message) = (text(place), text(&format!("{}{}", words.message, words.fields)));
        // SAFETY: both are texts, which Triton copies. It returns no error for levels that there are; one is deleted.
        unsafe {
            let level = number(*metadata.level());
            let line = c_int::try_from(line).unwrap_or_default();
            let error =
                (core().TRITONSERVER_LogMessage)(level, place.as_ptr(), line, message.as_ptr());
            if !error.is_null() {
                (core().TRITONSERVER_ErrorDelete)(error);
            }
        }
    }

    // Spans are not logged.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
