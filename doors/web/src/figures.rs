//! Figures of a server, for Prometheus.

use crate::fleet::Fleet;
use hyper::StatusCode;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the start.
#[derive(Default)]
pub(crate) struct Figures {
    /// Responses by the first digit of their status.
    responses: [AtomicU64; 10],
    refused: AtomicU64,
    scrape: tokio::sync::Mutex<()>,
}

impl Figures {
    pub(crate) fn count(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).min(9);
        self.responses[class].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request for which there was no room.
    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// In Prometheus' format, with what the application counts.
    pub(crate) async fn text(&self, fleet: &Fleet) -> String {
        // Two at once would find each other's questions in their way.
        let _one = self.scrape.lock().await;
        let (counted, silent) = fleet.moment().text().await;
        self.own(fleet, silent) + &counted
    }

    /// The server's own. So many workers have not answered.
    fn own(&self, fleet: &Fleet, silent: usize) -> String {
        let mut text = String::new();
        let mut one = |name: &str, kind: &str, help: &str, value: u64| {
            // A String takes everything.
            let _ = writeln!(
                text,
                "# HELP hydrozoa_web_{name} {help}\n# TYPE hydrozoa_web_{name} {kind}\nhydrozoa_web_{name} {value}"
            );
        };
        one("workers", "gauge", "Interpreters with the application.", fleet.count() as u64);
        one("workers_ready", "gauge", "Workers that answer requests.", fleet.ready() as u64);
        one(
            "requests_waiting",
            "gauge",
            "Requests that wait for a worker.",
            fleet.waiting() as u64,
        );
        one("requests_under_way", "gauge", "Requests that workers have.", fleet.under_way() as u64);
        let replaced = fleet.replaced.load(Ordering::Relaxed);
        one("workers_replaced_total", "counter", "Workers that were replaced.", replaced);
        one(
            "workers_without_metrics",
            "gauge",
            "Workers that have not answered: their gauges are missing, and their counts are former ones.",
            silent as u64,
        );
        let refused = self.refused.load(Ordering::Relaxed);
        one("requests_refused_total", "counter", "Requests for which there was no room.", refused);
        let name = "hydrozoa_web_responses_total";
        let _ = writeln!(text, "# HELP {name} Responses by their status.\n# TYPE {name} counter");
        for class in 2..=5 {
            let count = self.responses[class].load(Ordering::Relaxed);
            let _ = writeln!(text, "{name}{{status=\"{class}xx\"}} {count}");
        }
        text
    }
}
