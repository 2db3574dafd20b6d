//! Requests of WSGI: threads of the host take them from a queue, and each is one call into an interpreter.
//!
//! No thread of Python waits for requests, and no thread of the host waits inside of an interpreter.

use crate::error::{Error, trace};
use crate::exchange::Exchange;
use crate::queue::Queue;
use crate::worker::Worker;
use bytes::Bytes;
use hydrozoa::Session;
use hyper::StatusCode;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

/// Python's own limits are made for such a stack.
const STACK: usize = 8 << 20;

/// A request that waits for a worker.
pub(crate) struct Job {
    pub(crate) exchange: Arc<Exchange>,
    /// Names and values of the environ, one a line.
    pub(crate) head: String,
    pub(crate) path: String,
    /// `None` if it comes in pieces.
    pub(crate) body: Option<Bytes>,
}

/// Starts the threads of a worker. They end when it is told to leave.
pub(crate) fn start(worker: &Arc<Worker>, queue: &Arc<Queue<Job>>) -> Result<(), Error> {
    for _ in 0..worker.context.settings.threads {
        let name = format!("worker {}", worker.number());
        let thread = thread::Builder::new().name(name).stack_size(STACK);
        let (worker, queue) = (Arc::clone(worker), Arc::clone(queue));
        let serve = move || {
            // Those of a worker that has crashed go to the others.
            let ends = || worker.is_leaving() || worker.interpreter.has_crashed();
            while let Some(job) = queue.take(ends) {
                answer(&worker, job);
            }
        };
        thread.spawn(serve).map_err(Error::Threads)?;
    }
    Ok(())
}

/// Answers a request.
fn answer(worker: &Worker, job: Job) {
    let Job { exchange, head, path, body } = job;
    worker.exchanges.add(&exchange);
    let session = worker.interpreter.session();
    let call = || call(worker, &session, &exchange, &head, &path, body);
    let outcome = match worker.context.settings.timeout {
        None => call(),
        Some(limit) => {
            exchange.set_deadline(Instant::now() + limit);
            session.with_deadline(limit, call)
        }
    };
    worker.exchanges.remove(exchange.number);
    if let Err(error) = outcome {
        let is_answered = exchange.is_answered();
        let status = match &error {
            hydrozoa::Error::Deadline { .. } => StatusCode::GATEWAY_TIMEOUT,
            hydrozoa::Error::Crashed { .. } => StatusCode::BAD_GATEWAY,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        exchange.fail(status);
        let number = worker.number();
        let behind = if is_answered { ", behind its response" } else { "" };
        match &error {
            hydrozoa::Error::Deadline { .. } => tracing::error!(
                "worker {number}: the request for {path} has exceeded --timeout, and is interrupted:\n{}",
                trace(&error)
            ),
            hydrozoa::Error::Crashed { .. } => {
                tracing::error!("worker {number}: the request for {path} has met a crash");
            }
            _ => tracing::error!(
                "worker {number}: the application has raised for {path}{behind}:\n{}",
                trace(&error)
            ),
        }
    } else if !exchange.is_answered() {
        exchange.fail(StatusCode::INTERNAL_SERVER_ERROR);
    }
    worker.served.count(&worker.interpreter);
}

fn call(
    worker: &Worker,
    session: &Session,
    exchange: &Exchange,
    head: &str,
    path: &str,
    body: Option<Bytes>,
) -> hydrozoa::Result<()> {
    session.with_gil(|| {
        let handle = worker.handle.attach(session)?;
        handle.call((exchange.number, head, path, body.as_deref())).map(drop)
    })
}
