//! The counters of applications: what prometheus_client has in each worker, and had in those that have left.

use crate::error::trace;
use crate::exposition::Exposition;
use crate::fleet::big_thread;
use crate::worker::Worker;
use hydrozoa::Interpreter;
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How long a worker may take for its answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often the end of another question is looked for.
const LOOK: Duration = Duration::from_millis(10);

/// The answers of a worker.
#[derive(Default)]
pub(crate) struct Answers {
    last: Mutex<Arc<Exposition>>,
    /// A thread asks, or waits for the GIL to ask.
    is_asked: AtomicBool,
    /// The log has its first exception.
    has_failed: AtomicBool,
}

/// Counts of workers that have left, and workers that leave.
#[derive(Default)]
pub(crate) struct Departed {
    counts: Exposition,
    leaving: Vec<Arc<Worker>>,
}

/// The workers at one moment, of which the scrape is made.
pub(crate) struct Moment {
    pub(crate) workers: Vec<Arc<Worker>>,
    leaving: Vec<Arc<Worker>>,
    departed: Exposition,
}

impl Departed {
    /// A worker leaves. Until [`Departed::note`] it is asked as others are.
    pub(crate) fn leaves(&mut self, worker: &Arc<Worker>) {
        self.leaving.push(Arc::clone(worker));
    }

    /// Workers that leave, and still have requests or are to be asked for their counts.
    pub(crate) fn leaving(&self) -> &[Arc<Worker>] {
        &self.leaving
    }

    /// A worker that leaves has served its requests, and counts no further.
    pub(crate) fn note(&mut self, worker: &Arc<Worker>, counts: &Exposition) {
        self.leaving.retain(|leaving| !Arc::ptr_eq(leaving, worker));
        self.counts.add_counts(counts);
    }

    /// Waits, for a while, until no scrape has the worker, so that its interpreter does not end on a thread of connections.
    pub(crate) fn wait_for_scrapes(worker: &Arc<Worker>) {
        let end = Instant::now() + 2 * PATIENCE;
        while Arc::strong_count(worker) > 1 && Instant::now() < end {
            std::thread::sleep(LOOK);
        }
    }

    pub(crate) fn moment(&self, workers: Vec<Arc<Worker>>) -> Moment {
        Moment { workers, leaving: self.leaving.clone(), departed: self.counts.clone() }
    }
}

impl Moment {
    /// All workers' figures in Prometheus' text format, and how many have not answered: their counts are those of their last answers.
    pub(crate) async fn text(self) -> (String, usize) {
        let asked = self.workers.iter().chain(&self.leaving).map(ask);
        let answers = futures_util::future::join_all(asked).await;
        let mut all = Exposition::default();
        for (exposition, _) in &answers {
            all.add_counts(exposition);
        }
        let current = self.workers.iter().zip(&answers);
        for (worker, (exposition, _)) in current.clone().filter(|(_, (_, is_new))| *is_new) {
            all.add_gauges(exposition, worker.number());
        }
        all.add_counts(&self.departed);
        (all.text(), current.filter(|(_, (_, is_new))| !is_new).count())
    }
}

/// Asks a worker. Returns whether it has answered; if not, its last answer.
pub(crate) async fn ask(worker: &Arc<Worker>) -> (Arc<Exposition>, bool) {
    let answers = &worker.answers;
    let last = || answers.last.lock().clone();
    if answers.is_asked.swap(true, Ordering::SeqCst) {
        return (last(), false);
    }
    let (sender, receiver) = oneshot::channel();
    let own = Arc::clone(worker);
    let asking = big_thread("metrics", move || {
        let read = read(&own.interpreter).inspect_err(|error| complain(&own, error)).ok();
        let read = read.map(Arc::new);
        if let Some(read) = &read {
            *own.answers.last.lock() = Arc::clone(read);
        }
        own.answers.is_asked.store(false, Ordering::SeqCst);
        drop(own);
        drop(sender.send(read));
    });
    if let Err(error) = asking {
        tracing::error!("{error}");
        answers.is_asked.store(false, Ordering::SeqCst);
    }
    match tokio::time::timeout(PATIENCE, receiver).await {
        Ok(Ok(Some(read))) => (read, true),
        _ => (last(), false),
    }
}

/// The last counts of a worker that has served its requests: never less than a scrape has shown.
pub(crate) async fn last_counts(worker: &Arc<Worker>) -> Arc<Exposition> {
    let asked = async {
        loop {
            let (counts, is_new) = ask(worker).await;
            if is_new || !worker.answers.is_asked.load(Ordering::SeqCst) {
                return counts;
            }
            // A scrape asks it just now.
            tokio::time::sleep(LOOK).await;
        }
    };
    let asked = tokio::time::timeout(PATIENCE, asked).await;
    asked.unwrap_or_else(|_| worker.answers.last.lock().clone())
}

fn read(interpreter: &Interpreter) -> hydrozoa::Result<Exposition> {
    let session = interpreter.session();
    let module = session.import("_hydrozoa_metrics")?;
    let text: Option<String> = module.call_method("collect", ())?.extract()?;
    Ok(text.map(|text| Exposition::parse(&text)).unwrap_or_default())
}

fn complain(worker: &Worker, error: &hydrozoa::Error) {
    let is_first = !worker.answers.has_failed.swap(true, Ordering::SeqCst);
    if is_first && !worker.interpreter.has_crashed() {
        tracing::warn!("worker {}: its metrics: {}", worker.number(), trace(error));
    }
}
