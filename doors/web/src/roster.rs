//! The requests of all workers that have not ended, by the names of their interpreters.
//!
//! A worker that is being replaced still has requests. The runtime tells of a crash or a stuck call by the interpreter's name, on a thread
//! that does not wait for the one which replaces workers.

use crate::exchange::Exchanges;
use hyper::StatusCode;
use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::time::Instant;

/// The requests of each worker.
#[derive(Default)]
pub(crate) struct Roster(Mutex<Vec<(String, Weak<Exchanges>)>>);

impl Roster {
    pub(crate) fn add(&self, interpreter: &str, exchanges: &Arc<Exchanges>) {
        let mut all = self.0.lock();
        all.retain(|(_, exchanges)| exchanges.strong_count() > 0);
        all.push((interpreter.to_owned(), Arc::downgrade(exchanges)));
    }

    fn find(&self, interpreter: &str) -> Option<Arc<Exchanges>> {
        let all = self.0.lock();
        all.iter().find(|(name, _)| name == interpreter)?.1.upgrade()
    }

    /// An interpreter has crashed: its requests have no answer.
    pub(crate) fn crashed(&self, interpreter: &str) {
        if let Some(exchanges) = self.find(interpreter) {
            exchanges.abandon(StatusCode::BAD_GATEWAY);
        }
    }

    /// A call into an interpreter does not react to its interruption.
    pub(crate) fn stuck(&self, interpreter: &str) {
        let now = Instant::now();
        if let Some(exchanges) = self.find(interpreter) {
            exchanges.give_up();
            exchanges.fail(StatusCode::GATEWAY_TIMEOUT, |exchange| {
                exchange.deadline().is_some_and(|deadline| deadline <= now)
            });
        }
    }
}
