//! The current state of the server and its models, for programs and for the page.

use super::interpreter_memory::Measured;
use super::metadata;
use crate::service::Service;
use hydrozoa_models::{Failures, InstanceState, Latencies, Latency, Model, Statistics};
use serde_json::{Value, json};
use std::time::Duration;

/// The server at one moment.
pub(crate) struct Status {
    pub(crate) name: String,
    pub(crate) is_ready: bool,
    pub(crate) age: Duration,
    pub(crate) under_way: usize,
    pub(crate) lost_lines: u64,
    pub(crate) memory: Option<ProcessMemory>,
    pub(crate) models: Vec<ModelStatus>,
}

/// Bytes of the process, and how long ago they were counted.
#[derive(Clone, Copy)]
pub(crate) struct ProcessMemory {
    pub(crate) private: u64,
    pub(crate) proportional: u64,
    pub(crate) resident: u64,
    pub(crate) age: Duration,
}

/// A model, or a version of one that serves.
pub(crate) struct ModelStatus {
    pub(crate) name: String,
    pub(crate) state: &'static str,
    /// Why it does not serve.
    pub(crate) reason: String,
    pub(crate) serving: Option<Serving>,
}

/// A version that serves.
pub(crate) struct Serving {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) statistics: Statistics,
    pub(crate) latencies: Latencies,
    pub(crate) waiting: usize,
    pub(crate) longest_wait: Option<Duration>,
    pub(crate) instances: Vec<InstanceStatus>,
}

/// An instance, and the private bytes of its interpreter if they are known.
pub(crate) struct InstanceStatus {
    pub(crate) does: InstanceState,
    pub(crate) private: Option<u64>,
}

impl Serving {
    fn of(model: &Model, measured: Option<&Measured>) -> Self {
        let (name, version) = (model.config().name().to_owned(), model.version());
        let instances = model.instances().into_iter().map(|does| {
            let private = measured.and_then(|measured| measured.of(&name, version, does.index));
            InstanceStatus { does, private }
        });
        Self {
            instances: instances.collect(),
            statistics: model.statistics(),
            latencies: model.latencies(),
            waiting: model.waiting(),
            longest_wait: model.longest_wait(),
            name,
            version: version.to_string(),
        }
    }

    /// Instances that have an execution under way.
    pub(crate) fn executing(&self) -> usize {
        self.instances.iter().filter(|instance| instance.does.executing.is_some()).count()
    }
}

impl ProcessMemory {
    fn of(measured: &Measured) -> Self {
        Self {
            private: measured.private,
            proportional: measured.proportional,
            resident: measured.resident,
            age: measured.at.elapsed(),
        }
    }
}

impl Service {
    /// The current state of the server and its models, as JSON: states, latencies of the last minute, queues, instances and the
    /// private memory of their interpreters. This reads the repositories' folders.
    pub fn status(&self) -> Value {
        self.now().json()
    }

    /// The versions that serve. This reads no folder.
    pub(crate) fn serving_now(&self) -> (Vec<Serving>, Option<ProcessMemory>) {
        let measured = self.memory();
        let models = self.serving(None, None);
        let serving = models.iter().map(|model| Serving::of(model, measured.as_deref()));
        (serving.collect(), measured.as_deref().map(ProcessMemory::of))
    }

    pub(crate) fn now(&self) -> Status {
        let measured = self.memory();
        let models = self.server().index().into_iter().map(|line| {
            let (state, reason) = metadata::state(line.version, line.state);
            let state = if state.is_empty() { "UNLOADED" } else { state };
            // A version may have gone meanwhile.
            let model = line
                .version
                .and_then(|version| self.server().model(&line.name, Some(version)).ok());
            let serving = model.map(|model| Serving::of(&model, measured.as_deref()));
            ModelStatus { name: line.name, state, reason, serving }
        });
        Status {
            models: models.collect(),
            name: self.settings().id.clone(),
            is_ready: self.is_ready(),
            age: self.age(),
            under_way: self.under_way(),
            lost_lines: self.lost_lines(),
            memory: measured.as_deref().map(ProcessMemory::of),
        }
    }
}

impl Status {
    pub(crate) fn json(&self) -> Value {
        let memory = self.memory.map(|memory| {
            json!({
                "private_bytes": memory.private,
                "proportional_bytes": memory.proportional,
                "resident_bytes": memory.resident,
                "age_seconds": memory.age.as_secs_f64(),
            })
        });
        json!({
            "name": self.name,
            "version": env!("CARGO_PKG_VERSION"),
            "ready": self.is_ready,
            "age_seconds": self.age.as_secs_f64(),
            "requests_under_way": self.under_way,
            "log_lines_lost": self.lost_lines,
            "memory": memory,
            "models": self.models.iter().map(ModelStatus::json).collect::<Vec<_>>(),
        })
    }
}

impl ModelStatus {
    fn json(&self) -> Value {
        let mut json = json!({ "name": self.name, "state": self.state });
        if !self.reason.is_empty() {
            json["reason"] = json!(self.reason);
        }
        if let Some(serving) = &self.serving {
            serving.add_to(&mut json);
        }
        json
    }
}

impl Serving {
    fn add_to(&self, json: &mut Value) {
        let statistics = &self.statistics;
        let Failures { rejected, cancelled, model, other, .. } = statistics.failures;
        json["version"] = json!(self.version);
        json["success"] = json!(statistics.success);
        json["failures"] = json!({
            "rejected": rejected, "canceled": cancelled, "backend": model, "other": other,
        });
        json["inferences"] = json!(statistics.inferences);
        json["executions"] = json!(statistics.executions);
        json["queue"] = json!({
            "length": self.waiting,
            "oldest_seconds": self.longest_wait.map(|wait| wait.as_secs_f64()),
        });
        json["requests_per_second"] = json!(self.latencies.request.rate());
        json["last_minute"] = json!({
            "request": latency(&self.latencies.request),
            "queue": latency(&self.latencies.queue),
            "compute": latency(&self.latencies.compute),
        });
        json["instances"] = self.instances.iter().map(InstanceStatus::json).collect();
    }
}

fn latency(latency: &Latency) -> Value {
    json!({
        "count": latency.count,
        "p50_seconds": latency.p50.as_secs_f64(),
        "p99_seconds": latency.p99.as_secs_f64(),
    })
}

impl InstanceStatus {
    fn json(&self) -> Value {
        let does = &self.does;
        json!({
            "name": does.name,
            "private_bytes": self.private,
            "executing_seconds": does.executing.map(|time| time.as_secs_f64()),
            "executing_requests": does.requests,
            "executions": does.executions,
            "busy_seconds": does.busy.as_secs_f64(),
            "load": does.load,
            "gil_wait_seconds": does.gil_wait.as_secs_f64(),
            "restarts": does.restarts,
            "crashes": does.crashes,
        })
    }
}
