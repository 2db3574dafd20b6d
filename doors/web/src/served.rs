//! How many requests a worker has answered, and its end after the last one.

use crate::fleet::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;

/// The count of a worker's requests.
pub(crate) struct Served {
    /// The name of its interpreter.
    interpreter: String,
    commands: Sender<Command>,
    count: AtomicU64,
    /// Requests after which another worker takes its place.
    limit: Option<u64>,
}

impl Served {
    /// `limit` and a number up to `jitter` by chance are the most.
    pub(crate) fn new(
        interpreter: &str,
        commands: &Sender<Command>,
        limit: Option<u64>,
        jitter: u64,
    ) -> Self {
        let jitter = if jitter == 0 { 0 } else { fastrand::u64(0..=jitter) };
        Self {
            interpreter: interpreter.to_owned(),
            commands: commands.clone(),
            count: AtomicU64::new(0),
            limit: limit.map(|limit| limit.saturating_add(jitter)),
        }
    }

    /// Counts a request, and asks for another worker after the last one.
    pub(crate) fn count(&self) {
        let served = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if self.limit == Some(served) {
            // Nobody hears it where the server ends.
            drop(self.commands.send(Command::Served { interpreter: self.interpreter.clone() }));
        }
    }
}
