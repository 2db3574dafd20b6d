//! Metrics for Prometheus: by Triton's names where Triton has one, and Hydrozoa's own of instances and their interpreters.

use super::status::{InstanceStatus, ProcessMemory, Serving};
use crate::service::Service;
use hydrozoa_models::{Latency, PrometheusText};
use std::time::Duration;

impl Service {
    /// The models' counters and current state, and the metrics that they define, in Prometheus's text format, version 0.0.4.
    pub fn metrics(&self) -> String {
        let (models, memory) = self.serving_now();
        let mut text = PrometheusText::default();
        counts(&mut text, &models);
        summaries(&mut text, &models);
        instances(&mut text, &models);
        process(&mut text, self, memory);
        text.into_string() + &self.server().metrics().text()
    }
}

/// Labels of a model, before those of `more`.
fn labelled<'a, const MORE: usize>(
    model: &'a Serving,
    more: [(&'a str, &'a str); MORE],
) -> impl Iterator<Item = (&'a str, &'a str)> {
    [("model", &*model.name), ("version", &*model.version)].into_iter().chain(more)
}

/// The models' counters, by Triton's names.
fn counts(text: &mut PrometheusText, models: &[Serving]) {
    type Read = fn(&Serving) -> f64;
    let all: [(&str, &str, &str, Read); 10] = [
        (
            "nv_inference_request_success",
            "Number of successful inference requests, all batch sizes",
            "counter",
            |model| model.statistics.success as f64,
        ),
        ("nv_inference_count", "Number of inferences performed", "counter", |model| {
            model.statistics.inferences as f64
        }),
        ("nv_inference_exec_count", "Number of model executions performed", "counter", |model| {
            model.statistics.executions as f64
        }),
        (
            "nv_inference_request_duration_us",
            "Cumulative inference request duration in microseconds",
            "counter",
            |model| microseconds(model.statistics.success_time),
        ),
        (
            "nv_inference_queue_duration_us",
            "Cumulative inference queuing duration in microseconds",
            "counter",
            |model| microseconds(model.statistics.queue),
        ),
        (
            "nv_inference_compute_input_duration_us",
            "Cumulative compute input duration in microseconds",
            "counter",
            |model| microseconds(model.statistics.compute_input),
        ),
        (
            "nv_inference_compute_infer_duration_us",
            "Cumulative compute inference duration in microseconds",
            "counter",
            |model| microseconds(model.statistics.compute),
        ),
        (
            "nv_inference_compute_output_duration_us",
            "Cumulative inference compute output duration in microseconds",
            "counter",
            |model| microseconds(model.statistics.compute_output),
        ),
        (
            "nv_inference_pending_request_count",
            "Instantaneous number of pending requests awaiting execution",
            "gauge",
            |model| model.waiting as f64,
        ),
        (
            "hydrozoa_queue_oldest_seconds",
            "How long the oldest request in the queue has waited; 0 if none waits",
            "gauge",
            |model| model.longest_wait.unwrap_or_default().as_secs_f64(),
        ),
    ];
    for (name, help, kind, read) in all {
        text.family(name, help, kind);
        for model in models {
            text.sample(name, labelled(model, []), read(model));
        }
    }
    let name = "nv_inference_request_failure";
    text.family(name, "Number of failed inference requests, all batch sizes", "counter");
    for model in models {
        let failures = model.statistics.failures;
        for (reason, count) in [
            ("REJECTED", failures.rejected),
            ("CANCELED", failures.cancelled),
            ("BACKEND", failures.model),
            ("OTHER", failures.other),
        ] {
            // In Triton's order, by which programs look for them.
            let labels =
                [("model", &*model.name), ("reason", reason), ("version", &*model.version)];
            text.sample(name, labels, count);
        }
    }
}

/// Quantiles of the last minute, by Triton's names.
fn summaries(text: &mut PrometheusText, models: &[Serving]) {
    type Read = fn(&Serving) -> (Latency, u64, Duration);
    let all: [(&str, &str, Read); 5] = [
        ("nv_inference_request_summary_us", "inference request duration", |model| {
            let all = &model.statistics;
            (model.latencies.request, all.success, all.success_time)
        }),
        ("nv_inference_queue_summary_us", "inference queuing duration", |model| {
            (model.latencies.queue, model.statistics.taken, model.statistics.queue)
        }),
        ("nv_inference_compute_input_summary_us", "compute input duration", |model| {
            let all = &model.statistics;
            (model.latencies.compute_input, all.computed, all.compute_input)
        }),
        ("nv_inference_compute_infer_summary_us", "compute inference duration", |model| {
            (model.latencies.compute, model.statistics.computed, model.statistics.compute)
        }),
        ("nv_inference_compute_output_summary_us", "compute output duration", |model| {
            let all = &model.statistics;
            (model.latencies.compute_output, all.computed, all.compute_output)
        }),
    ];
    for (name, what, read) in all {
        text.family(name, &format!("Summary of {what} in microseconds"), "summary");
        for model in models {
            let (latency, count, sum) = read(model);
            for (quantile, value) in [
                ("0.5", latency.p50),
                ("0.9", latency.p90),
                ("0.95", latency.p95),
                ("0.99", latency.p99),
                ("0.999", latency.p999),
            ] {
                // Nothing is known of a minute in which nothing has happened.
                let value = if latency.count == 0 { f64::NAN } else { microseconds(value) };
                text.sample(name, labelled(model, [("quantile", quantile)]), value);
            }
            text.sample(&format!("{name}_sum"), labelled(model, []), microseconds(sum));
            text.sample(&format!("{name}_count"), labelled(model, []), count);
        }
    }
}

/// The current state of instances and their interpreters.
fn instances(text: &mut PrometheusText, models: &[Serving]) {
    type Read = fn(&InstanceStatus) -> Option<f64>;
    let all: [(&str, &str, &str, Read); 9] = [
        (
            "hydrozoa_instance_private_bytes",
            "Private memory of the instance's interpreter, as old as hydrozoa_memory_age_seconds says",
            "gauge",
            |instance| instance.private.map(|bytes| bytes as f64),
        ),
        (
            "hydrozoa_instance_executing_requests",
            "Requests in the execution that is under way",
            "gauge",
            |instance| Some(instance.does.requests as f64),
        ),
        (
            "hydrozoa_instance_executing_seconds",
            "How long the current execution has been running; 0 if the instance is idle",
            "gauge",
            |instance| Some(instance.does.executing.unwrap_or_default().as_secs_f64()),
        ),
        (
            "hydrozoa_instance_load",
            "Share of the last minute in which the instance has executed",
            "gauge",
            |instance| Some(instance.does.load),
        ),
        (
            "hydrozoa_instance_executions_total",
            "Executions that have begun",
            "counter",
            |instance| Some(instance.does.executions as f64),
        ),
        ("hydrozoa_instance_busy_seconds_total", "Time in executions", "counter", |instance| {
            Some(instance.does.busy.as_secs_f64())
        }),
        (
            "hydrozoa_instance_gil_wait_seconds_total",
            "Time that executions have waited for the interpreter's GIL at their begin",
            "counter",
            |instance| Some(instance.does.gil_wait.as_secs_f64()),
        ),
        (
            "hydrozoa_instance_restarts_total",
            "How often the instance's interpreter was replaced",
            "counter",
            |instance| Some(instance.does.restarts as f64),
        ),
        (
            "hydrozoa_instance_crashes_total",
            "How often the instance's code has crashed, contained",
            "counter",
            |instance| Some(instance.does.crashes as f64),
        ),
    ];
    for (name, help, kind, read) in all {
        text.family(name, help, kind);
        for model in models {
            for instance in &model.instances {
                let Some(value) = read(instance) else { continue };
                text.sample(name, labelled(model, [("instance", &*instance.does.name)]), value);
            }
        }
    }
}

/// The process.
fn process(text: &mut PrometheusText, service: &Service, memory: Option<ProcessMemory>) {
    let mut one = |name: &str, help: &str, kind: &str, value: f64| {
        text.family(name, help, kind);
        text.sample(name, [], value);
    };
    let help = "Requests under way, over HTTP and gRPC together";
    one("hydrozoa_requests_under_way", help, "gauge", service.under_way() as f64);
    let help = "Lines of the log that could not be written";
    one("hydrozoa_log_lost_total", help, "counter", service.lost_lines() as f64);
    let help = "Bytes of requests that are held: of bodies that come, and of requests that are not answered";
    one("hydrozoa_request_bytes", help, "gauge", service.bytes_in_flight() as f64);
    let Some(memory) = memory else { return };
    let help = "Anonymous memory that no other process has";
    one("hydrozoa_process_private_bytes", help, "gauge", memory.private as f64);
    let help = "Resident memory, each page divided by the number of mappings that share it";
    one("hydrozoa_process_proportional_bytes", help, "gauge", memory.proportional as f64);
    one("hydrozoa_process_resident_bytes", "Resident memory", "gauge", memory.resident as f64);
    let help = "How old the figures of memory are";
    one("hydrozoa_memory_age_seconds", help, "gauge", memory.age.as_secs_f64());
}

fn microseconds(time: Duration) -> f64 {
    time.as_micros() as f64
}
