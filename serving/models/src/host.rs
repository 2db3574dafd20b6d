//! The services that a model's code may ask of the server that runs it.
//!
//! [`Server`](crate::Server) is such a server. A program with a server of its own implements [`Host`], and runs models by
//! [`hosted`](crate::hosted).

use crate::request::{Event, Failure, Request};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Takes the events of a request, on whatever thread has them. It must not wait.
pub type Respond = Box<dyn FnMut(Event) + Send>;

/// A request that a model makes of a model.
pub struct Call {
    /// The other model.
    pub model: String,
    /// Its version; `None` for the one that the server chooses.
    pub version: Option<i64>,
    /// Whether any number of responses is taken. A decoupled model needs that.
    pub decoupled: bool,
    /// The request.
    pub request: Request,
    /// Takes the responses.
    pub respond: Respond,
}

/// A call under way. Dropping it does not cancel the call.
pub trait Cancel: Send + Sync {
    /// Tells the other model that its caller no longer waits.
    fn cancel(&self);
}

/// A configuration and files that a load brings along, which replace those of the repository.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// A configuration as JSON, in the place of the file's.
    pub config: Option<String>,
    /// Files in the place of the repository's, by their paths in the model's folder behind `file:`, as `file:1/model.py`. They need a
    /// configuration.
    pub files: Vec<(String, Bytes)>,
}

/// The server that runs a model. Its calls come from the model's threads, which have released the GIL.
pub trait Host: Send + Sync {
    /// Begins a call of a model.
    ///
    /// # Errors
    ///
    /// [`Failure`] if it does not begin. Then no response follows.
    fn infer(&self, call: Call) -> Result<Box<dyn Cancel>, Failure>;

    /// Loads a model, or loads it again.
    ///
    /// # Errors
    ///
    /// A text for the model.
    fn load_model(&self, name: &str, overrides: Overrides) -> Result<(), String>;

    /// Takes a model out of service, and with `dependents` those that it is made of.
    ///
    /// # Errors
    ///
    /// A text for the model.
    fn unload_model(&self, name: &str, dependents: bool) -> Result<(), String>;

    /// Whether a model serves, or this version of it. An empty text is any version.
    fn is_model_ready(&self, name: &str, version: &str) -> bool;

    /// The metric of this name. `kind` is `counter`, `gauge` or `histogram`.
    ///
    /// # Errors
    ///
    /// A text for the model.
    fn metric_family(
        &self,
        name: &str,
        description: &str,
        kind: &str,
    ) -> Result<Arc<dyn MetricFamily>, String>;
}

/// A metric with a name, a description and a kind, for as long as this is held.
pub trait MetricFamily: Send + Sync {
    /// The series of these labels. `buckets` are the upper limits of a histogram's.
    ///
    /// # Errors
    ///
    /// A text for the model.
    fn series(
        self: Arc<Self>,
        labels: BTreeMap<String, String>,
        buckets: Vec<f64>,
    ) -> Result<Arc<dyn MetricSeries>, String>;
}

/// One set of labels of a metric, for as long as this is held. Errors are texts for the model.
pub trait MetricSeries: Send + Sync {
    /// Adds to a counter or gauge.
    ///
    /// # Errors
    ///
    /// It is a histogram, or a counter would decrease.
    fn increment(&self, by: f64) -> Result<(), String>;

    /// Sets a gauge.
    ///
    /// # Errors
    ///
    /// It is not a gauge.
    fn set(&self, to: f64) -> Result<(), String>;

    /// Counts a value in a histogram.
    ///
    /// # Errors
    ///
    /// It is not a histogram.
    fn observe(&self, value: f64) -> Result<(), String>;

    /// The value of a counter or gauge.
    ///
    /// # Errors
    ///
    /// The server does not say.
    fn value(&self) -> Result<f64, String>;
}
