//! Metrics for Prometheus: by Triton's names where Triton has one, and Hydrozoa's own of instances and their interpreters.

use crate::service::Service;
use crate::status::{InstanceStatus, ProcessMemory, Serving};
use hydrozoa_serve::Latency;
use std::fmt::{Display, Write as _};
use std::time::Duration;

impl Service {
    /// What the models have done and do, and the metrics that they define, in Prometheus's text format, version 0.0.4.
    pub fn metrics(&self) -> String {
        let (models, memory) = self.serving_now();
        let mut text = Text::default();
        counts(&mut text, &models);
        summaries(&mut text, &models);
        instances(&mut text, &models);
        process(&mut text, self, memory);
        text.0 + &self.server().metrics().text()
    }
}

/// What models have done, by Triton's names.
fn counts(text: &mut Text, models: &[Serving]) {
    let counter = |text: &mut Text, name: &str, help: &str, value: fn(&Serving) -> u64| {
        text.family(name, help, "counter");
        models.iter().for_each(|model| text.line(name, &of_model(model), value(model)));
    };
    let name = "nv_inference_request_success";
    let help = "Number of successful inference requests, all batch sizes";
    counter(text, name, help, |model| model.statistics.success);
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
            text.line(name, &of_failures(model, reason), count);
        }
    }
    let name = "nv_inference_count";
    let help = "Number of inferences performed";
    counter(text, name, help, |model| model.statistics.inferences);
    let name = "nv_inference_exec_count";
    let help = "Number of model executions performed";
    counter(text, name, help, |model| model.statistics.executions);
    let name = "nv_inference_request_duration_us";
    let help = "Cumulative inference request duration in microseconds";
    counter(text, name, help, |model| microseconds(model.statistics.success_time));
    let name = "nv_inference_queue_duration_us";
    let help = "Cumulative inference queuing duration in microseconds";
    counter(text, name, help, |model| microseconds(model.statistics.queue));
    let name = "nv_inference_compute_input_duration_us";
    let help = "Cumulative compute input duration in microseconds";
    counter(text, name, help, |model| microseconds(model.statistics.compute_input));
    let name = "nv_inference_compute_infer_duration_us";
    let help = "Cumulative compute inference duration in microseconds";
    counter(text, name, help, |model| microseconds(model.statistics.compute));
    let name = "nv_inference_compute_output_duration_us";
    let help = "Cumulative inference compute output duration in microseconds";
    counter(text, name, help, |model| microseconds(model.statistics.compute_output));
    let name = "nv_inference_pending_request_count";
    text.family(name, "Instantaneous number of pending requests awaiting execution", "gauge");
    models.iter().for_each(|model| text.line(name, &of_model(model), model.waiting));
    let name = "hydrozoa_queue_oldest_seconds";
    text.family(
        name,
        "How long the oldest request in the queue has waited; 0 if none waits",
        "gauge",
    );
    for model in models {
        text.line(name, &of_model(model), seconds(model.longest_wait.unwrap_or_default()));
    }
}

/// Quantiles of the last minute, by Triton's names.
fn summaries(text: &mut Text, models: &[Serving]) {
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
            let labels = of_model(model);
            for (quantile, value) in [
                ("0.5", latency.p50),
                ("0.9", latency.p90),
                ("0.95", latency.p95),
                ("0.99", latency.p99),
                ("0.999", latency.p999),
            ] {
                let labels = format!("{labels},quantile=\"{quantile}\"");
                // Nothing is known of a minute in which nothing has happened.
                match latency.count {
                    0 => text.line(name, &labels, "NaN"),
                    _ => text.line(name, &labels, microseconds(value)),
                }
            }
            text.line(&format!("{name}_sum"), &labels, microseconds(sum));
            text.line(&format!("{name}_count"), &labels, count);
        }
    }
}

/// What instances and their interpreters do.
fn instances(text: &mut Text, models: &[Serving]) {
    type Read = fn(&InstanceStatus) -> Option<f64>;
    let all: [(&str, &str, &str, Read); 8] = [
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
            "For how long the execution that is under way has run; 0 if there is none",
            "gauge",
            |instance| Some(seconds(instance.does.executing.unwrap_or_default())),
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
            Some(seconds(instance.does.busy))
        }),
        (
            "hydrozoa_instance_gil_wait_seconds_total",
            "Time that executions have waited for the interpreter's GIL at their begin",
            "counter",
            |instance| Some(seconds(instance.does.gil_wait)),
        ),
        (
            "hydrozoa_instance_restarts_total",
            "How often the instance's interpreter was replaced",
            "counter",
            |instance| Some(instance.does.restarts as f64),
        ),
    ];
    for (name, help, kind, read) in all {
        text.family(name, help, kind);
        for model in models {
            for instance in &model.instances {
                let Some(value) = read(instance) else { continue };
                let labels =
                    format!("{},instance=\"{}\"", of_model(model), escaped(&instance.does.name));
                text.line(name, &labels, value);
            }
        }
    }
}

/// The process.
fn process(text: &mut Text, service: &Service, memory: Option<ProcessMemory>) {
    let name = "hydrozoa_requests_under_way";
    text.family(name, "Requests under way, over HTTP and gRPC together", "gauge");
    text.line(name, "", service.under_way());
    let name = "hydrozoa_log_lost_total";
    text.family(name, "Lines of the log that could not be written", "counter");
    text.line(name, "", service.lost_lines());
    let mut gauge = |name: &str, help: &str, value: &dyn Display| {
        text.family(name, help, "gauge");
        text.line(name, "", value);
    };
    let help = "Requests under way, over HTTP and gRPC together";
    gauge("hydrozoa_requests_under_way", help, &service.under_way());
    let help = "Bytes of requests that are held: of bodies that come, and of requests that are not answered";
    gauge("hydrozoa_request_bytes", help, &service.bytes_in_flight());
    let Some(memory) = memory else { return };
    let help = "Anonymous memory that no other process has";
    gauge("hydrozoa_process_private_bytes", help, &memory.private);
    let help = "Resident memory, each page divided by the number of mappings that share it";
    gauge("hydrozoa_process_proportional_bytes", help, &memory.proportional);
    gauge("hydrozoa_process_resident_bytes", "Resident memory", &memory.resident);
    let help = "How old the figures of memory are";
    gauge("hydrozoa_memory_age_seconds", help, &seconds(memory.age));
}

/// The text. Writing to a `String` cannot fail.
#[derive(Default)]
struct Text(String);

impl Text {
    fn family(&mut self, name: &str, help: &str, kind: &str) {
        let _ = write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl Display) {
        let _ = match labels {
            "" => writeln!(self.0, "{name} {value}"),
            _ => writeln!(self.0, "{name}{{{labels}}} {value}"),
        };
    }
}

fn of_model(model: &Serving) -> String {
    format!("model=\"{}\",version=\"{}\"", escaped(&model.name), model.version)
}

/// With the labels in Triton's order, by which programs look for them.
fn of_failures(model: &Serving, reason: &str) -> String {
    let (name, version) = (escaped(&model.name), model.version);
    format!("model=\"{name}\",reason=\"{reason}\",version=\"{version}\"")
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn microseconds(time: Duration) -> u64 {
    time.as_micros() as u64
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}
