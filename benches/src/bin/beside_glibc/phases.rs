//! Splits a load's time into its phases, from the events that the loader traces.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use anyhow::Result;
use hydrozoa_measure::samples::median;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Durations in microseconds by the name of the event's field.
#[derive(Clone, Default)]
pub struct Phases(Arc<Collected>);

#[derive(Default)]
struct Collected {
    active: AtomicBool,
    durations: Mutex<BTreeMap<&'static str, Vec<f64>>>,
}

impl Phases {
    /// Listens to the loader's events from now on. Call it once in a process.
    pub fn collect() -> Result<Phases> {
        let phases = Phases::default();
        tracing::subscriber::set_global_default(Listener(phases.clone()))?;
        Ok(phases)
    }

    /// Counts loads from here on.
    pub fn start(&self) {
        self.0.active.store(true, Ordering::Relaxed);
    }

    /// Stops counting loads.
    pub fn end(&self) {
        self.0.active.store(false, Ordering::Relaxed);
    }

    /// Prints the medians.
    pub fn report(&self) {
        let durations = self.0.durations.lock().expect("no panic while it was held");
        let parts: Vec<String> = durations
            .iter()
            .map(|(name, values)| format!("{} {:.1}", name.trim_end_matches("_us"), median(values)))
            .collect();
        println!("phases of a further replica, medians in us: {}", parts.join(", "));
    }
}

struct Listener(Phases);

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("hydrozoa_loader")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        if self.0.0.active.load(Ordering::Relaxed) {
            event.record(&mut Fields(&self.0.0));
        }
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Fields<'a>(&'a Collected);

impl Visit for Fields<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        if field.name().ends_with("_us") {
            let mut durations = self.0.durations.lock().expect("no panic while it was held");
            durations.entry(field.name()).or_default().push(value);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}
