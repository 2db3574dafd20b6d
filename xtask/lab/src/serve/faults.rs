//! A healthy model beside models that do not end, block, take all memory, or do not start.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Result, ensure};
use hydrozoa_measure::samples::median;

use super::results::{Fault, Latency};
use super::running::{Closed, Running, cases};
use super::system::{Installed, Served, System};
use crate::server::request;

/// The faulty models in `benches/python/serving/faults`, each with its request.
pub const FAULTS: [(&str, &str); 4] = [
    ("loops", "/v2/models/loops/infer"),
    ("blocks", "/v2/models/blocks/infer"),
    ("leaks", "/v2/models/leaks/infer"),
    ("raises", "/v2/repository/models/raises/load"),
];

/// The healthy model.
pub const HEALTHY: &str = "blank";

/// The configuration of a faulty model.
pub const CONFIGURATION: &str = "backend: \"python\"\nmax_batch_size: 0\n\
    input { name: \"IN\" data_type: TYPE_FP32 dims: [1] }\n\
    output { name: \"OUT\" data_type: TYPE_FP32 dims: [1] }\n";

/// A request to each of them.
const REQUEST: &str =
    "{\"inputs\":[{\"name\":\"IN\",\"datatype\":\"FP32\",\"shape\":[1],\"data\":[1]}]}";

/// Options of the server: limits without which nothing counts as stuck. The last model is loaded when it is asked for.
pub fn options() -> Vec<String> {
    let options = "--model-control-mode explicit --load-model blank --load-model loops --load-model blocks --load-model leaks \
         --execution-limit-secs 0.3 --memory-limit 200000000";
    options.split(' ').map(str::to_owned).collect()
}

/// The healthy model's latency with and without requests to a faulty one, in turns.
pub fn faults(
    (place, client): (&Installed, &Path),
    seconds: f64,
    rounds: usize,
) -> Result<Vec<Fault>> {
    let served = Served { model: HEALTHY, models: 1, instances: 1 };
    let one = Running::start(place, System::Hydrozoa, served)?;
    let cases = cases(&place.folder, HEALTHY);
    let window = || one.closed((client, 0, &cases), 1, seconds);
    let mut found = Vec::new();
    for (fault, path) in FAULTS {
        let mut all = Fault { fault: fault.to_owned(), seconds, rounds, ..Fault::default() };
        let (mut without, mut beside) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            without.push(window()?);
            let is_over = AtomicBool::new(false);
            let report = thread::scope(|scope| {
                let asks = scope.spawn(|| ask(one.server.port(), path, &is_over));
                let report = window();
                is_over.store(true, Ordering::Relaxed);
                let statuses = asks.join().expect("the thread does not panic")?;
                for (status, count) in statuses {
                    *all.statuses.entry(status).or_default() += count;
                }
                report
            });
            beside.push(report?);
        }
        all.without = Latency::of(&without);
        all.beside = Latency::of(&beside);
        eprintln!("{}", words(&all));
        found.push(all);
    }
    one.end()?;
    Ok(found)
}

/// Sends one request after the other until it is over. Returns how often each status came.
fn ask(port: u16, path: &str, is_over: &AtomicBool) -> Result<BTreeMap<u16, usize>> {
    let mut statuses = BTreeMap::new();
    while !is_over.load(Ordering::Relaxed) {
        *statuses.entry(post(port, path)?).or_default() += 1;
    }
    Ok(statuses)
}

fn post(port: u16, path: &str) -> Result<u16> {
    // A load has a body of its own kind, which may be empty.
    let body = if path.ends_with("/load") { "" } else { REQUEST };
    let (status, answer) = request(port, &format!("POST {path}"), body)?;
    ensure!(status != 200, "{path} has answered {answer}");
    Ok(status)
}

impl Latency {
    fn of(windows: &[Closed]) -> Self {
        let middle = |of: fn(&Closed) -> f64| median(&windows.iter().map(of).collect::<Vec<_>>());
        Self {
            requests: windows.iter().map(|window| window.requests).sum(),
            p50_ms: middle(|window| window.p50_ms),
            p99_ms: middle(|window| window.p99_ms),
        }
    }
}

/// The words for a reader.
pub fn words(fault: &Fault) -> String {
    let statuses: Vec<_> =
        fault.statuses.iter().map(|(status, count)| format!("{count} times {status}")).collect();
    format!(
        "beside a model that {}: p50 {:.2} ms, p99 {:.2} ms, {} requests, all right; without it {:.2}, {:.2}, {}; its own answers: {}",
        fault.fault,
        fault.beside.p50_ms,
        fault.beside.p99_ms,
        fault.beside.requests,
        fault.without.p50_ms,
        fault.without.p99_ms,
        fault.without.requests,
        statuses.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_have_what_differs() {
        let fault = Fault {
            fault: "loops".to_owned(),
            statuses: BTreeMap::from([(500, 3), (503, 1)]),
            beside: Latency { requests: 7, p50_ms: 1.0, p99_ms: 2.5 },
            without: Latency { requests: 9, p50_ms: 0.5, p99_ms: 2.0 },
            ..Fault::default()
        };
        let expected = "beside a model that loops: p50 1.00 ms, p99 2.50 ms, 7 requests, all right; \
                        without it 0.50, 2.00, 9; its own answers: 3 times 500, 1 times 503";
        assert_eq!(words(&fault), expected);
    }

    #[test]
    fn each_fault_has_a_model() {
        for (fault, _) in FAULTS {
            assert!(Installed::scripts().join(format!("faults/{fault}.py")).exists(), "{fault}");
        }
    }
}
