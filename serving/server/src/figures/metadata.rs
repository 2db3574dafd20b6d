//! The metadata that clients may read about the server and its models.

use crate::service::Service;
use hydrozoa_models::config::TensorConfig;
use hydrozoa_models::{Code, Failure, Indexed, Model, ModelState};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The extensions of the protocol, by Triton's names.
const EXTENSIONS: [&str; 9] = [
    "classification",
    "sequence",
    "model_repository",
    "schedule_policy",
    "model_configuration",
    "binary_tensor_data",
    "parameters",
    "statistics",
    "generate",
];

impl Service {
    /// The server's metadata, as JSON of the protocol.
    pub fn metadata(&self) -> Value {
        json!({
            "name": self.settings().id,
            "version": env!("CARGO_PKG_VERSION"),
            "extensions": self.extensions(),
        })
    }

    /// The extensions of the protocol that it has.
    pub(crate) fn extensions(&self) -> Vec<&'static str> {
        let shared = self.settings().client_shared_memory.then_some("system_shared_memory");
        EXTENSIONS.into_iter().chain(shared).collect()
    }

    /// A model's metadata, as JSON of the protocol.
    ///
    /// # Errors
    ///
    /// As [`hydrozoa_models::Server::model`].
    pub fn model_metadata(&self, name: &str, version: Option<i64>) -> Result<Value, Failure> {
        let model = self.server().model(name, version)?;
        let versions = version.map_or_else(|| self.server().versions(name), |one| vec![one]);
        let versions: Vec<_> = versions.iter().map(i64::to_string).collect();
        let config = model.config();
        let has_batch = config.max_batch_size() > 0;
        let tensors = |all: &[TensorConfig]| -> Vec<Value> {
            all.iter().map(|tensor| tensor_metadata(tensor, has_batch)).collect()
        };
        Ok(json!({
            "name": name,
            "versions": versions,
            "platform": config.backend(),
            "inputs": tensors(config.inputs()),
            "outputs": tensors(config.outputs()),
        }))
    }

    /// All models, or only those that are ready, as JSON of the protocol.
    pub fn index(&self, is_ready: bool) -> Value {
        let server = self.server();
        let lines = if is_ready { server.loaded() } else { server.index() };
        let serves = |line: &Indexed| {
            line.version.is_some() && !matches!(line.state, ModelState::Impaired(_))
        };
        let lines = lines.into_iter().filter(|line| !is_ready || serves(line));
        lines
            .map(|line| {
                let mut fields = Map::new();
                fields.insert("name".to_owned(), json!(line.name));
                if let Some(version) = line.version {
                    fields.insert("version".to_owned(), json!(version.to_string()));
                }
                let (state, reason) = state(line.version, line.state);
                for (field, text) in [("state", state.to_owned()), ("reason", reason)] {
                    if !text.is_empty() {
                        fields.insert(field.to_owned(), json!(text));
                    }
                }
                Value::Object(fields)
            })
            .collect()
    }

    /// The models that were loaded or should have been, as a table for a log.
    pub fn table(&self) -> String {
        let heads = ["model", "version", "state"].map(str::to_owned);
        let rows = self.server().loaded().into_iter().map(|line| {
            let version = line.version.map(|version| version.to_string()).unwrap_or_default();
            let (state, reason) = state(line.version, line.state);
            // The log has the rest of the reason.
            let reason = reason.lines().next().map(|first| format!(": {first}"));
            [line.name, version, format!("{state}{}", reason.unwrap_or_default())]
        });
        let rows: Vec<[String; 3]> = [heads].into_iter().chain(rows).collect();
        let width = |column: usize| {
            rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default()
        };
        let (first, second) = (width(0), width(1));
        let lines = rows.iter().map(|[model, version, state]| {
            format!("  {model:first$}  {version:second$}  {state}").trim_end().to_owned()
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The statistics of a model, or of all that serve, as JSON of the protocol.
    ///
    /// # Errors
    ///
    /// [`Code::InvalidArgument`] if the model does not serve.
    pub fn statistics(&self, name: Option<&str>, version: Option<i64>) -> Result<Value, Failure> {
        let models = self.serving(name, version);
        if let (Some(name), true) = (name, models.is_empty()) {
            let words = match version {
                Some(_) if !self.server().versions(name).is_empty() => {
                    format!("requested model version is not available for model '{name}'")
                }
                _ => format!("requested model '{name}' is not available"),
            };
            return Err(Failure::new(Code::InvalidArgument, words));
        }
        let all: Vec<_> = models.iter().map(|model| model_statistics(model)).collect();
        Ok(json!({ "model_stats": all }))
    }

    /// The versions that serve: of one model or of all, one or all.
    pub(crate) fn serving(&self, name: Option<&str>, version: Option<i64>) -> Vec<Arc<Model>> {
        let server = self.server();
        let mut names: Vec<String> = match name {
            Some(name) => vec![name.to_owned()],
            None => server.loaded().into_iter().map(|line| line.name).collect(),
        };
        names.dedup();
        let versions = names.iter().flat_map(|name| {
            let versions = server.versions(name).into_iter();
            let versions = versions.filter(move |number| version.is_none_or(|one| one == *number));
            // A version may have gone meanwhile.
            versions.filter_map(move |number| server.model(name, Some(number)).ok())
        });
        versions.collect()
    }
}

/// A state by Triton's name, and the reason for it.
pub(crate) fn state(version: Option<i64>, state: ModelState) -> (&'static str, String) {
    match (version, state) {
        (_, ModelState::Impaired(why)) => ("UNAVAILABLE", why),
        // A version that serves is ready, whatever becomes of a later load.
        (Some(_), _) | (None, ModelState::Ready) => ("READY", String::new()),
        (None, ModelState::Loading) => ("LOADING", String::new()),
        (None, ModelState::Failed(why)) => ("UNAVAILABLE", why),
        (None, _) => ("", String::new()),
    }
}

fn tensor_metadata(tensor: &TensorConfig, has_batch: bool) -> Value {
    let batch: &[i64] = if has_batch { &[-1] } else { &[] };
    let shape = [batch, &tensor.dims].concat();
    json!({
        "name": tensor.name,
        "datatype": tensor.data_type.name(),
        "shape": shape,
    })
}

fn model_statistics(model: &Model) -> Value {
    let statistics = model.statistics();
    let of = |count: u64, time: Duration| json!({ "count": count, "ns": time.as_nanos() as u64 });
    let none = of(0, Duration::ZERO);
    json!({
        "name": model.config().name(),
        "version": model.version().to_string(),
        "last_inference": statistics.last_inference.as_millis() as u64,
        "inference_count": statistics.inferences,
        "execution_count": statistics.executions,
        "inference_stats": {
            "success": of(statistics.success, statistics.success_time),
            "fail": of(statistics.failed, statistics.failed_time),
            "queue": of(statistics.success, statistics.queue),
            "compute_input": of(statistics.success, statistics.compute_input),
            "compute_infer": of(statistics.success, statistics.compute),
            "compute_output": of(statistics.success, statistics.compute_output),
            "cache_hit": none,
            "cache_miss": none,
        },
        "response_stats": {},
        "batch_stats": model.batches().into_iter().map(|batch| json!({
            "batch_size": batch.size,
            "compute_input": of(batch.executions, batch.compute_input),
            "compute_infer": of(batch.executions, batch.compute),
            "compute_output": of(batch.executions, batch.compute_output),
        })).collect::<Vec<_>>(),
        "memory_usage": [],
    })
}
