//! Metrics for Prometheus, by Triton's names.

use crate::service::Service;
use hydrozoa_serve::{Model, Statistics};
use std::fmt::Write as _;

struct Metric {
    name: &'static str,
    help: &'static str,
    kind: &'static str,
    value: fn(&Model, &Statistics) -> u64,
}

const METRICS: [Metric; 8] = [
    Metric {
        name: "nv_inference_request_success",
        help: "Number of successful inference requests, all batch sizes",
        kind: "counter",
        value: |_, statistics| statistics.success,
    },
    Metric {
        name: "nv_inference_request_failure",
        help: "Number of failed inference requests, all batch sizes",
        kind: "counter",
        value: |_, statistics| statistics.failed,
    },
    Metric {
        name: "nv_inference_count",
        help: "Number of inferences performed",
        kind: "counter",
        value: |_, statistics| statistics.inferences,
    },
    Metric {
        name: "nv_inference_exec_count",
        help: "Number of model executions performed",
        kind: "counter",
        value: |_, statistics| statistics.executions,
    },
    Metric {
        name: "nv_inference_request_duration_us",
        help: "Cumulative inference request duration in microseconds",
        kind: "counter",
        value: |_, statistics| statistics.success_time.as_micros() as u64,
    },
    Metric {
        name: "nv_inference_queue_duration_us",
        help: "Cumulative inference queuing duration in microseconds",
        kind: "counter",
        value: |_, statistics| statistics.queue.as_micros() as u64,
    },
    Metric {
        name: "nv_inference_compute_infer_duration_us",
        help: "Cumulative compute inference duration in microseconds",
        kind: "counter",
        value: |_, statistics| statistics.compute.as_micros() as u64,
    },
    Metric {
        name: "nv_inference_pending_request_count",
        help: "Instantaneous number of pending requests awaiting execution",
        kind: "gauge",
        value: |model, _| model.waiting() as u64,
    },
];

impl Service {
    /// What the models have done, and the metrics that they define, in Prometheus's text format, version 0.0.4.
    pub fn metrics(&self) -> String {
        let models: Vec<_> = self
            .serving(None, None)
            .into_iter()
            .map(|model| {
                let statistics = model.statistics();
                (model, statistics)
            })
            .collect();
        let mut text = String::new();
        for Metric { name, help, kind, value } in &METRICS {
            // Writing to a String cannot fail.
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
            for (model, statistics) in &models {
                let of = label(model.config().name());
                let (version, value) = (model.version(), value(model, statistics));
                let _ = writeln!(text, "{name}{{model=\"{of}\",version=\"{version}\"}} {value}");
            }
        }
        text + &self.server().metrics().text()
    }
}

fn label(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
