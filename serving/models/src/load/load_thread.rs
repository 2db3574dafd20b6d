//! Work with a model's code before it has instances, on a thread of its own: whoever waits for it does not wait for what is stuck.

use crate::execution::{Execution, Keeper, Late, STACK};
use crate::load::{LoadError, Source};
use hydrozoa::{Error, Pool, Session};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// Work on a thread of its own, and who waits for it.
pub(crate) struct LoadThread<T> {
    source: Arc<Source>,
    answer: Mutex<Option<Sender<Result<T, LoadError>>>>,
}

impl<T: Send + 'static> LoadThread<T> {
    /// Waits for the result of `work`, or until a part of it is stuck ([`LoadThread::limited`]).
    pub(crate) fn run(
        source: &Arc<Source>,
        work: impl FnOnce(&Arc<Self>) -> Result<T, LoadError> + Send + 'static,
    ) -> Result<T, LoadError> {
        let (sender, answer) = channel();
        let answers = Mutex::new(Some(sender));
        let load = Arc::new(Self { source: source.clone(), answer: answers });
        let thread = thread::Builder::new().name("load".to_owned()).stack_size(STACK);
        let no_thread =
            |error| LoadError::Thread { model: source.name().to_owned(), source: error };
        thread
            .spawn(move || {
                let outcome = work(&load);
                let answer = load.answer.lock().take();
                // The receiver may rely on being the only owner of what the model was loaded from.
                drop(load);
                answer.map(|answer| answer.send(outcome));
            })
            .map_err(no_thread)?;
        let panicked = |_| no_thread(io::Error::other("the thread that loads it has panicked"));
        answer.recv().map_err(panicked)?
    }

    /// Does something in the pool's first interpreter, within the limit of an initialization.
    pub(crate) fn limited<R>(
        self: &Arc<Self>,
        pool: &Pool,
        session: &Session,
        what: &'static str,
        action: impl FnOnce() -> Result<R, Error>,
    ) -> Result<R, LoadError> {
        let source = &self.source;
        let limit = source.limits.initialization_limit;
        let keeper =
            || -> Arc<dyn Keeper> { Arc::new(Loads { load: self.clone(), pool: pool.clone() }) };
        let late = |limit| Late {
            model: source.name().to_owned(),
            instance: source.name().to_owned(),
            what,
            limit,
        };
        let outcome = Execution::run(session, limit, keeper, late, |_| action());
        outcome.map_err(|error| {
            let late = limit.map(|limit| (what, limit));
            LoadError::limited(source.name(), source.version, error, late)
        })
    }
}

struct Loads<T> {
    load: Arc<LoadThread<T>>,
    pool: Pool,
}

impl<T: Send + 'static> Keeper for Loads<T> {
    fn is_stuck(&self) -> bool {
        self.pool.interpreters().first().is_some_and(hydrozoa::Interpreter::is_stuck)
    }

    fn interrupt_loop(&self) {}

    fn give_up(&self, late: &Late) {
        let source = &self.load.source;
        let error = LoadError::late(source.name(), source.version, late.what, late.limit, false);
        let answer = self.load.answer.lock().take();
        answer.map(|answer| answer.send(Err(error)));
    }

    fn crashed(&self, _report: &str) {}
}
