//! The application is loaded into all interpreters, by a few threads.
//!
//! A worker that has just been loaded takes as much memory as a process would. Where there are many, each is settled before the next one is
//! loaded: a server with a limit of memory would not live to see the runtime settle them in its own time.

use crate::error::Error;
use crate::fleet::big_thread;
use crate::worker::{Context, Worker};
use hydrozoa::Interpreter;
use parking_lot::Mutex;
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

/// Loads the application into each interpreter: into the first one alone, whose errors are those of all.
pub(crate) fn load_all(
    interpreters: Vec<Interpreter>,
    context: &Context,
) -> Result<Vec<Arc<Worker>>, Error> {
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let is_many = interpreters.len() > threads;
    let mut interpreters = interpreters.into_iter();
    let first = interpreters.next().expect("a pool has an interpreter");
    let mut workers = vec![loaded(first, context, is_many)?];
    let threads = threads.min(interpreters.len());
    let rest = Arc::new(Mutex::new(interpreters));
    let loading = (0..threads).map(|_| {
        let (rest, context) = (Arc::clone(&rest), context.clone());
        big_thread("load", move || {
            let next = || rest.lock().next();
            let all = std::iter::from_fn(next).map(|next| loaded(next, &context, is_many));
            all.collect::<Result<Vec<_>, _>>()
        })
    });
    let loading = loading.collect::<Result<Vec<_>, _>>()?;
    let ended = loading
        .into_iter()
        .map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
    for loaded in ended.collect::<Vec<_>>() {
        workers.extend(loaded?);
    }
    workers.sort_by_key(|worker| worker.interpreter.index());
    Ok(workers)
}

fn loaded(
    interpreter: Interpreter,
    context: &Context,
    is_settled: bool,
) -> Result<Arc<Worker>, Error> {
    let worker = Worker::load(interpreter, context)?;
    if let (true, Some(folder)) = (is_settled, &context.settings.dense)
        && let Err(error) = worker.interpreter.settle(folder)
    {
        // The runtime tries it again, and says what is lasting.
        tracing::debug!("worker {} is not settled yet: {error}", worker.number());
    }
    Ok(Arc::new(worker))
}
