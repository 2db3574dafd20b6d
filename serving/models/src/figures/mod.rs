//! Figures of models: counters and durations of requests, the work of instances, and the metrics that models define.

mod activity;
mod last_minute;
mod metrics;
mod prometheus;
mod statistics;

pub(crate) use activity::Activity;
pub use activity::InstanceState;
pub use last_minute::Latency;
pub use metrics::Metrics;
pub(crate) use metrics::{Family, Series};
pub use prometheus::PrometheusText;
pub(crate) use statistics::{Batch, Counters, Ended};
pub use statistics::{BatchStatistics, Failures, Latencies, Statistics};
