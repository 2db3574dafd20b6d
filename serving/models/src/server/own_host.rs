//! [`Server`] as the host of its own models.

use crate::figures::{Family, Series};
use crate::host::{Call, Cancel, Host, MetricFamily, MetricSeries, Overrides};
use crate::model::Ticket;
use crate::request::{Code, Failure};
use crate::server::{Server, WeakServer};
use std::collections::BTreeMap;
use std::sync::Arc;

impl WeakServer {
    /// The server, or why it is missing.
    fn server(&self) -> Result<Server, String> {
        self.upgrade().ok_or_else(|| "the server ends".to_owned())
    }
}

impl Cancel for Ticket {
    fn cancel(&self) {
        Ticket::cancel(self);
    }
}

impl Host for WeakServer {
    fn infer(&self, call: Call) -> Result<Box<dyn Cancel>, Failure> {
        let server = self.server().map_err(|words| Failure::new(Code::Unavailable, words))?;
        let chosen = server.choose(&call.model, call.version)?;
        if chosen.model().config().is_decoupled() && !call.decoupled {
            return Err(Failure::needs_decoupled(&call.model));
        }
        let (_, ticket) = chosen.infer(call.request, call.respond)?;
        Ok(Box::new(ticket))
    }

    fn load_model(&self, name: &str, overrides: Overrides) -> Result<(), String> {
        self.server()?.load_for_model(name, &overrides).map_err(|error| error.to_string())
    }

    fn unload_model(&self, name: &str, _dependents: bool) -> Result<(), String> {
        // No model here is made of others.
        self.server()?.unload_for_model(name).map_err(|error| error.to_string())
    }

    fn is_model_ready(&self, name: &str, version: &str) -> bool {
        self.server().is_ok_and(|server| server.is_ready(name, version))
    }

    fn metric_family(
        &self,
        name: &str,
        description: &str,
        kind: &str,
    ) -> Result<Arc<dyn MetricFamily>, String> {
        Ok(self.server()?.metrics().family(name, description, kind)?)
    }
}

impl MetricFamily for Family {
    fn series(
        self: Arc<Self>,
        labels: BTreeMap<String, String>,
        buckets: Vec<f64>,
    ) -> Result<Arc<dyn MetricSeries>, String> {
        Ok(Family::series(&self, labels, buckets)?)
    }
}

impl MetricSeries for Series {
    fn increment(&self, by: f64) -> Result<(), String> {
        Series::increment(self, by)
    }

    fn set(&self, to: f64) -> Result<(), String> {
        Series::set(self, to)
    }

    fn observe(&self, value: f64) -> Result<(), String> {
        Series::observe(self, value)
    }

    fn value(&self) -> Result<f64, String> {
        Ok(Series::value(self))
    }
}
